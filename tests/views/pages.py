"""What both pages hold, and what they must not do."""

import json
import re


def content(page):
    (data,) = re.findall('<script type="application/json" id="data">(.*?)</script>', page, re.S)
    return json.loads(data)


def policy_of(page):
    """Returns the page's policy, and checks that it loads nothing."""
    assert page.count("</script>") == 2 and "<title>A &amp; B &lt;i&gt;</title>" in page
    assert not re.search(r"""(src|href)=|@import|url\(|fetch\(""", page)
    (policy,) = re.findall('Content-Security-Policy" content="(.*?)"', page)
    return policy
