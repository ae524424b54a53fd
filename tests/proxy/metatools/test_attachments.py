"""What tools gave to code besides text: kept for one task, and never more than there is room for."""

from __future__ import annotations

from typing import Any

from proxy.metatools.attachments import Attachments


def picture(size: int) -> dict[str, Any]:
    return {"type": "image", "data": "x" * size, "mimeType": "image/png"}


def test_an_attachment_is_its_owners_until_it_is_dropped() -> None:
    attachments = Attachments(10_000)
    handle, other = attachments.keep("one", picture(10)), attachments.keep("two", picture(20))
    assert attachments.get("one", handle) == picture(10)
    assert attachments.get("two", handle) is None
    attachments.drop("one")
    assert attachments.get("one", handle) is None
    assert attachments.get("two", other) == picture(20)


def test_the_oldest_make_room_and_one_that_is_too_large_is_not_kept() -> None:
    attachments = Attachments(3_000)
    first, second = attachments.keep("one", picture(1_000)), attachments.keep("one", picture(900))
    large = attachments.keep("one", {"type": "resource", "resource": {"uri": "x:y", "blob": "x" * 3_000}})
    assert attachments.get("one", large) is None
    assert attachments.get("one", first) is not None
    third = attachments.keep("one", picture(900))
    kept = [attachments.get("one", handle) is not None for handle in (first, second, third)]
    assert kept == [False, True, True]
