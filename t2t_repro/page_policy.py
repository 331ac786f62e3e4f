"""The Content-Security-Policy of an HTML page whose scripts and styles stand in it."""

import base64
import hashlib
import re


def page_policy(page: str, *more: str) -> str:
    """Returns a policy under which the page's scripts and styles run, and nothing else.

    They are known by their hashes (Content Security Policy Level 3, section 6.7.3.3).

    Args:
        page: HTML, whose `<script>` and `<style>` have no attributes.
        more: further directives, such as "connect-src 'self'".
    """

    def hashed(element: str) -> list[str]:
        texts = re.findall(f"<{element}>(.*?)</{element}>", page, re.DOTALL)
        digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()) for text in texts)
        sources = " ".join(f"'sha256-{digest.decode()}'" for digest in digests)
        return [f"{element}-src {sources}"] if sources else []

    own = ("default-src 'none'", *hashed("script"), *hashed("style"))
    return "; ".join([*own, "base-uri 'none'", "form-action 'none'", *more])
