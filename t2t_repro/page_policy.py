"""The Content-Security-Policy of an HTML page whose script and style stand in it."""

import base64
import hashlib
import re


def page_policy(page: str, *more: str) -> str:
    """Returns a policy under which the page's one script and one style run, and nothing else.

    They are known by their hashes (Content Security Policy Level 3, section 6.7.3.3).

    Args:
        page: HTML with one `<script>` and one `<style>`.
        more: further directives, such as "connect-src 'self'".
    """

    def hashed(element: str) -> str:
        (text,) = re.findall(f"<{element}>(.*?)</{element}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        return f"{element}-src 'sha256-{digest}'"

    own = ("default-src 'none'", hashed("script"), hashed("style"))
    return "; ".join([*own, "base-uri 'none'", "form-action 'none'", *more])
