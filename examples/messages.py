"""Made-up messages to a shop, as a table: something to cluster that needs no download.

    python examples/messages.py messages.csv

900 messages about seven matters, in the columns "text" and "matter". The second is the truth, to
look at afterwards. The README clusters the file, `make demo` too.
"""

import csv
import sys
from pathlib import Path

import numpy as np

# what people say about each, in pieces that stand in any order
MATTERS = {
    "refund": (
        "I want a refund", "the refund never came", "my card was charged twice", "please return my money",
        "the bank shows two payments", "I paid by card", "the invoice has a wrong amount",
        "a refund to my bank account", "the money is still missing", "charged more than the invoice says",
    ),
    "delivery": (
        "the parcel is late", "the courier never came", "where is my parcel", "tracking stopped on {day}",
        "the courier left no note", "delivery was promised for {day}", "the parcel went to a wrong address",
        "tracking says delivered", "the depot has no parcel", "delivery to the depot failed",
    ),
    "login": (
        "I cannot log in", "my password is not accepted", "the login page rejects me", "the reset code never arrives",
        "my account is locked", "the login link has expired", "a new password did not help",
        "no reset mail since {day}", "account locked after the login", "the password reset fails",
    ),
    "size": (
        "the {thing} is too small", "the {thing} is too large", "which size fits me", "the size chart says medium",
        "sleeves are too long", "exchange it for a larger size", "one size smaller would fit", "the fit is tight",
        "medium sleeves and tight fit", "the size chart is wrong",
    ),
    "damage": (
        "the {thing} arrived broken", "the zip is torn", "a broken seam", "photos of the damage", "the box was crushed",
        "the damage is on one side", "torn at the seam", "a hole in the {thing}", "the zip came broken",
        "stains and a hole",
    ),
    "voucher": (
        "my voucher code fails", "checkout refuses the voucher", "the discount is missing", "ten percent discount",
        "the voucher is valid until {day}", "no discount at checkout", "the code says expired", "a gift voucher",
        "checkout shows full price", "which code gives the discount",
    ),
    "praise": (
        "I love the {thing}", "wonderful {thing}", "thank you", "friendly service", "beautiful colours",
        "my family loves it", "lovely quality", "great service and quality", "warmly recommended", "beautiful and warm",
    ),
}  # fmt: skip
SHARES = (0.24, 0.2, 0.16, 0.13, 0.11, 0.09, 0.07)
THINGS = ("jacket", "coat", "backpack", "shirt", "raincoat", "sweater")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
GREETINGS = ("Hello, ", "Dear team, ", "Hi, ", "")


def made_up_messages(n_messages: int = 900, seed: int = 0) -> tuple[list[str], list[str]]:
    """Messages, and what each is about."""
    generator = np.random.default_rng(seed)
    matters = generator.choice(list(MATTERS), n_messages, p=SHARES).tolist()
    messages = []
    for matter in matters:
        said = ", ".join(generator.choice(MATTERS[matter], generator.integers(3, 5), replace=False))
        greeting, thing, day = (generator.choice(words) for words in (GREETINGS, THINGS, DAYS))
        messages.append(f"{greeting}{said}.".format(thing=thing, day=day))
    return messages, matters


def write_messages(path: Path) -> None:
    """The messages as csv."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["text", "matter"])
        writer.writerows(zip(*made_up_messages(), strict=True))


if __name__ == "__main__":
    write_messages(Path(sys.argv[1] if len(sys.argv) > 1 else "messages.csv"))
