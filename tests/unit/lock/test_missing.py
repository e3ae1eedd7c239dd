from __future__ import annotations

import pytest

from flbuild.errors import HostError, RemoteGoneError, UnreachableError
from flbuild.lock.missing import missing, settle_missing
from flbuild.progress import Silent

FLAGTREE = missing("flagtree", "0.6", "flagos", UnreachableError("flagos is away", remedy="set FLAGOS_URL"))
SHMEM = missing("cann-shmem", "1.6", "cann", RemoteGoneError("cann has no such thing", remedy="set CANN_URL"))


def test_nothing_missing_is_nothing_to_say():
    settle_missing("ascend", [], Silent(), allowed=False)


def test_one_missing_input_keeps_its_message_and_offers_the_record():
    with pytest.raises(UnreachableError, match=r"(?s)away\n.*FLAGOS_URL.*lock ascend --allow-missing"):
        settle_missing("ascend", [FLAGTREE], Silent(), allowed=False)


def test_all_that_is_missing_is_named_with_what_leads_to_it():
    with pytest.raises(UnreachableError) as caught:
        settle_missing("ascend", [FLAGTREE, SHMEM], Silent(), allowed=False)
    for text in ("2 inputs", "flagos is away", "FLAGOS_URL", "cann has no such thing", "CANN_URL"):
        assert text in str(caught.value)


def test_what_may_be_missing_is_a_warning():
    progress = Silent()
    settle_missing("ascend", [FLAGTREE, SHMEM], progress, allowed=True)
    assert len(progress.warnings) == 2


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (UnreachableError("x at 10.0.0.1"), "it could not be reached"),
        (RemoteGoneError("x"), "it does not have this"),
        (HostError("x"), "it was not asked"),
    ],
)
def test_the_entry_says_nothing_that_differs_between_machines(error, reason):
    assert missing("a", "1", "flagos", error).entry.reason == reason
