"""The paper's claims beside what `run.py` measured: one function for each, which reads the results and gives a verdict.

`claims.md` is written from `results.json`, so that the page cannot say what was not measured.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[2]))  # what papers share
from papers.common import between, interval, share_interval, told_seconds
from papers.verdicts import (
    FAILS,
    HOLDS,
    PARTLY,
    SKIPPED,
    Claim,
    Line,
    Results,
    Said,
    Verdict,
    by_section,
    by_test,
    counts,
    judged,
    not_attempted,
    over,
    rules,
    table,
)

LINKS, FAST, KMEANS = "Links", "Links, few sub-clusters", "mini-batch k-means, K known"
LEADER = "DP-vMF-means, one pass"
PRESET = "linkscluster, its preset"
PARTS = ("similarities", "behaviour", "budgets")  # besides the sets
# Lines whose rule was committed before the first run that it judges.
BEFORE = frozenset({"lemmas-recorded", "granularity", "elongation", "budget-peers"})
LARGE = ("128", "256")  # dimensions of the paper's "typical embedding vectors"

_HEAD = """# Mansfield, Wang, Downey, Wan and Lopez Moreno (2018): claims and outcomes

Links: a high-dimensional online clustering method. This page is written by `run.py` from `results.json`; do not edit
it.

    ARMILLARY_SHARED_DATA=... python papers/mansfield2018_links/run.py

"""


def lines(results: Results) -> list[Line]:
    """All claims, judged."""
    return judged(CLAIMS, results)


def page(results: Results) -> str:
    """`claims.md`."""
    found = lines(results)
    head = f"{_HEAD}{counts(found)}\n{table(found)}"
    notes = f"{_NOTES}\n{rules(found, BEFORE)}\n{told_seconds(results['about']['seconds'], PARTS)}\n"
    return f"{head}\n{_accuracies(results)}\n{_settings(results)}\n{notes}\n{by_section(SAID, found)}"


def final(entry: Results, method: str, what: str = "accuracy") -> float:
    """The mean at the end of all test streams of a set, both directions."""
    return float(np.mean(finals(entry, method, what)))


def finals(entry: Results, method: str, what: str = "accuracy") -> list[float]:
    """At the end of every test stream of a set, both directions."""
    return [run[what][-1] for way in entry["directions"] for run in way["methods"][method]["runs"]]


def _streams(results: Results) -> str:
    numbers = {len(finals(entry, LINKS)) for entry in results["sets"].values()}
    return f"{max(numbers)} streams of each of {len(results['sets'])} sets"


def _methods(entry: Results) -> list[str]:
    return list(entry["directions"][0]["methods"])


def _rivals(entry: Results) -> list[str]:
    """Online peers that are not told K, and are not Links in any form of ours."""
    return [name for name in _methods(entry) if name not in (LINKS, FAST, KMEANS)]


def _recognises(results: Results) -> Verdict:
    found = {name: finals(entry, LINKS) for name, entry in results["sets"].items()}
    words = "; ".join(f"{name} {np.mean(values):.3f} ({between(interval(values))})" for name, values in found.items())
    return Verdict(words, over(np.mean(values) >= 0.9 for values in found.values()), _streams(results))


def _beats_peers(results: Results) -> Verdict:
    words, wins = [], []
    for name, entry in results["sets"].items():
        rivals = {rival: final(entry, rival) for rival in _rivals(entry)}
        best = max(rivals, key=lambda rival: rivals[rival])
        gaps = np.subtract(finals(entry, LINKS), finals(entry, best))
        words.append(f"{name}: {gaps.mean():+.3f} over {best} ({between(interval(gaps))})")
        wins.append(gaps.mean() >= -1e-9)
    return Verdict("; ".join(words), over(wins), _streams(results))


def _beats_known_number(results: Results) -> Verdict:
    words, wins = [], []
    for name, entry in results["sets"].items():
        gaps = np.subtract(finals(entry, LINKS), finals(entry, KMEANS))
        words.append(f"{name} {final(entry, LINKS):.3f} / {final(entry, KMEANS):.3f} ({between(interval(gaps))} apart)")
        wins.append(gaps.mean() >= 0.0)
    return Verdict("; ".join(words), over(wins), _streams(results))


def _number_of_ids(results: Results) -> Verdict:
    words, ratios = [], []
    for name, entry in results["sets"].items():
        shares = np.divide(finals(entry, LINKS, "n_ids"), finals(entry, LINKS, "n_persons"))
        ids, persons = final(entry, LINKS, "n_ids"), final(entry, LINKS, "n_persons")
        words.append(f"{name}: {ids:.0f} ids of {persons:.0f} persons (ratio {between(interval(shares), 2)})")
        ratios.append(ids / persons)
    return Verdict("; ".join(words), over(0.8 <= ratio <= 1.25 for ratio in ratios), _streams(results))


def _speed(results: Results) -> Verdict:
    """Windows of speech come every 500,000 microseconds, pictures of a video every 33,000."""
    words, wins = [], []
    for name, entry in results["sets"].items():
        spent = [run["microseconds"] for way in entry["directions"] for run in way["methods"][LINKS]["runs"]]
        words.append(f"{name} {np.mean(spent):.1f} ({between(interval(spent), 1)})")
        wins.append(max(spent) < 1000.0)
    measured = f"microseconds a vector: {'; '.join(words)}; beside linkscluster: benchmarks/links.py"
    return Verdict(measured, over(wins), _streams(results))


def _tuning(results: Results) -> Verdict:
    """The tuned settings on the other half, beside what they had where they were chosen and beside a preset."""
    words, wins = [], []
    for name, entry in results["sets"].items():
        tuned = [way["methods"][LINKS]["settings"]["tuning_accuracy"] for way in entry["directions"]]
        found = finals(entry, LINKS)
        told = f"{name} {np.mean(found):.3f} ({between(interval(found))}), {np.mean(tuned):.3f} where it was tuned"
        wins.append(np.mean(found) >= np.mean(tuned) - 0.05)
        if PRESET in _methods(entry):
            gap = np.subtract(found, finals(entry, PRESET))
            told += f", {gap.mean():+.3f} over a preset ({between(interval(gap))})"
            wins.append(gap.mean() > 0.0)
        words.append(told)
    return Verdict("; ".join(words), over(wins), _streams(results))


# ---------------------------------------------------------------------------------------- the model, sections 2 and 3


def _of_dimensions(results: Results, what: str) -> dict[str, list[float]]:
    return {dimension: [run[what] for run in runs] for dimension, runs in results["similarities"]["made"].items()}


def _made_runs(results: Results) -> str:
    return f"{len(results['similarities']['made']['128'])} runs of many clusters in each dimension"


def _lemma(what: str) -> Callable[[Results], Verdict]:
    """The share beyond a small delta: below 1% in 128 and 256 dimensions."""

    def judge(results: Results) -> Verdict:
        found = _of_dimensions(results, what)
        words = "; ".join(f"{d} dimensions {np.mean(v):.4f} ({between(interval(v), 4)})" for d, v in found.items())
        status = over(np.mean(found[dimension]) < 0.01 for dimension in LARGE)
        return Verdict(f"share beyond delta: {words}", status, _made_runs(results))

    return judge


def _recorded_lemmas(results: Results) -> Verdict:
    """The three lemmas on recorded vectors, by the same deltas."""
    lemmas = results["similarities"]["lemmas"]
    if not lemmas:
        return Verdict("no recorded vectors", SKIPPED)
    words, wins = [], []
    for name, people in lemmas.items():
        by = {what: [person[what] for person in people] for what in ("lemma 1", "lemma 2", "lemma 3")}
        told = ", ".join(f"{what} {np.mean(v):.3f} ({between(interval(v))})" for what, v in by.items())
        words.append(f"{name}: {told}")
        wins += [np.mean(values) < 0.01 for values in by.values()]
    runs = " and ".join(str(len(people)) for people in lemmas.values())
    return Verdict(f"share beyond delta: {'; '.join(words)}", over(wins), f"{runs} persons, 10 recordings of each")


def _granularity(results: Results) -> Verdict:
    """Sub-clusters by T_s."""
    runs = results["behaviour"]["granularity in 128"]
    by = {least: [run[least] for run in runs] for least in runs[0]}
    told = "; ".join(f"{least}: {np.mean(v):.0f} ({between(interval(v), 0)})" for least, v in by.items())
    is_rising = [all(np.diff([run[least] for least in by]) >= 0.0) for run in runs]
    first, *_, last = by.values()
    is_wide = [b >= 2.0 * a for a, b in zip(first, last, strict=True)]
    n_rising = sum(is_rising)
    measured = (
        f"sub-clusters by T_s {told}; never fewer in {n_rising} of {len(runs)} streams "
        f"({between(share_interval(n_rising, len(runs)), 2)})"
    )
    status = HOLDS if all(is_rising) and all(is_wide) else PARTLY if all(is_wide) else FAILS
    return Verdict(measured, status, f"{len(runs)} made streams")


def _expected(kind: str) -> Callable[[Results], Verdict]:
    """Mean similarities minus s(k) or s(k, k'), on made clusters and recorded persons."""

    def judge(results: Results) -> Verdict:
        words, wins = [], []
        for dimension, runs in results["similarities"]["made"].items():
            keys = [key for key in runs[0]["differences"] if key.endswith(", 1") == (kind == "s(k)")]
            worst = max(keys, key=lambda key: abs(np.mean([run["differences"][key] for run in runs])))
            values = [run["differences"][worst] for run in runs]
            words.append(f"{dimension} dimensions {np.mean(values):+.4f} ({between(interval(values), 4)}), at {worst}")
            if dimension in LARGE:
                wins.append(abs(np.mean(values)) <= 0.01)
        for name, people in results["similarities"]["recorded"].items():
            by_count: dict[str, list[float]] = {}
            for person in people:
                for count, line in person["members"].items():
                    by_count.setdefault(count, []).append(line["s(k)" if kind == "s(k)" else "s(k, k)"])
            worst = max(by_count, key=lambda count: abs(np.mean(by_count[count])))
            values = by_count[worst]
            words.append(
                f"{name} {np.mean(values):+.4f} ({between(interval(values), 4)}), at {worst}, {len(values)} persons"
            )
            wins.append(abs(np.mean(values)) <= 0.01)
        measured = f"largest mean difference: {'; '.join(words)}"
        return Verdict(measured, over(wins), _made_runs(results))

    return judge


def _pair_maximum(results: Results) -> Verdict:
    people = [one for one in results["similarities"]["recorded"].get("voices of 10 speakers", []) if "grown" in one]
    if not people:
        return Verdict("no recorded voices", SKIPPED)
    counts_of = list(people[0]["grown"])
    words = []
    for count in counts_of:
        values = [one["grown"][count] for one in people]
        words.append(f"{count}: {np.mean(values):.3f} ({between(interval(values))})")
    whole = [one["whole"] for one in people]
    ends = interval(whole)
    squares = [one["T_c"] ** 2 for one in people]
    measured = (
        f"voices, cosine of two sub-clusters of one speaker from two recordings, by their vectors: {'; '.join(words)}; "
        f"whole recordings {np.mean(whole):.3f} ({between(ends)}). One vector against one: {np.mean(squares):.3f}"
    )
    is_limit = ends[1] < 1.0 and np.mean(whole) > np.mean(squares)
    return Verdict(measured, HOLDS if is_limit else FAILS, f"{len(people)} speakers")


def _elongated(results: Results) -> Verdict:
    """Elongated clusters beside round ones with the same angles."""
    words, lower, same = [], [], []
    for dimension, runs in results["similarities"]["elongated"].items():
        grown, pairs = ([run[f"long {what}"] - run[f"round {what}"] for run in runs] for what in ("grown", "pair"))
        level = np.mean([run["round grown"] for run in runs])
        words.append(
            f"{dimension} dimensions: grown sub-clusters {np.mean(grown):+.4f} ({between(interval(grown), 4)}) from "
            f"{level:.3f}, members {np.mean(pairs):+.4f} ({between(interval(pairs), 4)})"
        )
        lower.append(interval(grown)[1] < 0.0)
        same.append(abs(np.mean(pairs)) <= 0.01)
    n_runs = len(next(iter(results["similarities"]["elongated"].values())))
    measured = f"similarity in elongated clusters, less that in round ones: {'; '.join(words)}"
    return Verdict(measured, over([all(lower), all(same)]), f"{n_runs} runs of each dimension")


def _centroid(results: Results) -> Verdict:
    found = _of_dimensions(results, "means, degrees")
    words = "; ".join(f"{d} dimensions {np.mean(v):.2f} ({between(interval(v), 2)})" for d, v in found.items())
    status = over(np.mean(found[dimension]) <= 1.0 for dimension in LARGE)
    return Verdict(f"degrees between the two, 20 vectors: {words}", status, _made_runs(results))


def _past(results: Results) -> Verdict:
    words, wins, losses = [], [], []
    for kind in (LINKS, FAST):
        for name in results["sets"]:
            runs = results["behaviour"].get(f"past, {kind}: {name}")
            if runs is None:
                continue
            gains = [run["now"] - run["answered"] for run in runs]
            words.append(f"{name}, {kind} {np.mean(gains):+.3f} ({between(interval(gains))})")
            wins.append(interval(gains)[0] > 0.0)
            losses.append(interval(gains)[1] < 0.0)
    if not wins:
        return Verdict("no recorded streams", SKIPPED)
    measured = f"accuracy of the ids at the end minus that of the answers: {'; '.join(words)}"
    status = HOLDS if all(wins) else PARTLY if any(wins) and not any(losses) else FAILS
    return Verdict(measured, status, _streams(results))


def _complement(results: Results) -> Verdict:
    words, wins = [], []
    for dimension in ("3", "128"):
        runs = results["behaviour"][f"complement in {dimension}"]
        gaps = [run[LINKS] - run[LEADER] for run in runs]
        values = [np.mean([run[name] for run in runs]) for name in (LINKS, LEADER)]
        words.append(
            f"{dimension} dimensions: {values[0]:.3f} against {values[1]:.3f}, difference {np.mean(gaps):+.3f} "
            f"({between(interval(gaps))})"
        )
        wins.append(np.mean(gaps) > 0.0 if dimension == "128" else np.mean(gaps) < 0.0)
    n_runs = len(results["behaviour"]["complement in 3"])
    return Verdict(
        f"accuracy of Links against DP-vMF-means: {'; '.join(words)}", over(wins), f"{n_runs} made streams of each"
    )


def _growth(results: Results) -> Verdict:
    runs = results["behaviour"]["growth in 128"]
    shares = [run["all"] / run["half"] for run in runs]
    words = [f"made persons in 128 dimensions {np.mean(shares):.2f} ({between(interval(shares), 2)})"]
    wins = [np.mean(shares) <= 1.25]
    for name in results["sets"]:
        found = results["behaviour"].get(f"past, {FAST}: {name}")
        if found is None:
            continue
        # new persons bring new sub-clusters: what counts is how many a person has
        ratio = [
            (run["n_subclusters"] / run["n_persons"]) / (run["n_subclusters_at_half"] / run["n_persons_at_half"])
            for run in found
        ]
        words.append(f"{name}, a person {np.mean(ratio):.2f} ({between(interval(ratio), 2)})")
        wins.append(np.mean(ratio) <= 1.25)
    measured = f"sub-clusters after twice as many vectors, times: {'; '.join(words)}"
    return Verdict(measured, over(wins), f"{len(runs)} made streams, {_streams(results)}")


def _budget(results: Results) -> Verdict:
    words, wins = [], []
    for name, entry in results["sets"].items():
        runs = results["behaviour"].get(f"budget: {name}")
        if runs is None:
            continue
        gaps = np.subtract(finals(entry, LINKS), [run["accuracy"] for run in runs])
        tried = sorted({int(run["n_tried"]) for run in runs})
        words.append(f"{name} {gaps.mean():+.3f} ({between(interval(gaps))}), {' and '.join(map(str, tried))} angles")
        wins.append(gaps.mean() >= 0.0)
    if not wins:
        return Verdict("no recorded streams", SKIPPED)
    return Verdict("; ".join(words), over(wins), _streams(results))


def _budget_peers(results: Results) -> Verdict:
    """Peers that chose from as many settings."""
    words, wins = [], []
    for name, by_peer in results["budgets"].items():
        for peer, ways in by_peer.items():
            theirs = [value for way in ways for value in way["accuracy"]]
            gaps = np.subtract(finals(results["sets"][name], LINKS), theirs)
            tried = " and ".join(str(way["n_tried"]) for way in ways)
            words.append(
                f"{name}: {peer} {np.mean(theirs):.3f}, {gaps.mean():+.3f} ({between(interval(gaps))}), {tried}"
            )
            wins.append(gaps.mean() >= 0.0)
    measured = (
        f"accuracy, gain of Links, settings of each half: {'; '.join(words)}. DBSTREAM with as many was not run: by "
        f"its stored times {_hours(results, 'DBSTREAM'):.1f} hours"
    )
    return Verdict(measured, over(wins), _streams(results))


def _hours(results: Results, peer: str) -> float:
    """What a peer would take with as many settings as Links on one order of each half, from its stored times."""
    seconds = 0.0
    for name, entry in results["sets"].items():
        tried = np.mean([run["n_tried"] for run in results["behaviour"][f"budget: {name}"]])
        for way in entry["directions"]:
            if peer in way["methods"]:
                spent = np.mean([run["microseconds"] for run in way["methods"][peer]["runs"]])
                seconds += 1e-6 * spent * way["n_vectors"] * tried
    return seconds / 3600.0


_UNIT, _REFERENCE = "tests/unit/test_links.py", "tests/oracles/test_links_reference.py"

CLAIMS = (
    Claim(
        "recognises",
        "Links recognises people by voice and face embeddings",
        "abstract, 1",
        "matched accuracy of 0.9 or more on persons never tuned on; in part: on some sets",
        _recognises,
    ),
    Claim(
        "speed",
        "each vector is clustered as it becomes available, efficiently, in real time",
        "abstract, 1, 3.2",
        "every stream below 1,000 microseconds a vector (speech brings one in 500,000); in part: some sets",
        _speed,
    ),
    Claim(
        "online",
        "answers need no knowledge of later vectors and are never taken back; an id is unique",
        "3.1",
        "one at a time and in batches give equal answers; ids are given once",
        by_test(
            f"{_REFERENCE}::test_one_at_a_time_and_in_batches_are_equal",
            f"{_UNIT}::test_ids_are_given_once_even_where_clusters_merge_die_and_are_dropped",
        ),
    ),
    Claim(
        "past",
        "fixing past assignments improves the internal model over time",
        "1, 3.1",
        "ids of past vectors at the end more accurate than the answers, the interval above 0 on every set and setting; "
        "in part: on some, and on none below 0",
        _past,
        ("behaviour",),
    ),
    Claim(
        "complement",
        "Links is complementary to small-variance methods: high dimension and variance against low",
        "1",
        "more accurate than DP-vMF-means on broad clusters in 128 dimensions, and less on narrow ones in 3, both "
        "tuned; in part: one of the two",
        _complement,
        ("behaviour",),
    ),
    Claim(
        "ring",
        "angles to the centre have the density A sin(theta)^(N-2) f(theta), with A the area of a sphere (eqs. 3 and 4)",
        "2.1",
        "areas by quadrature, and the share of drawn vectors within an angle",
        by_test("tests/oracles/test_seed_limits.py::test_angles_to_the_centre_have_the_density_of_their_ring"),
    ),
    Claim(
        "lemma-1",
        "lemma 1: two random vectors are almost always almost perpendicular",
        "2.3, eq. 9",
        "a cosine beyond 0.25, of either sign, for fewer than 1% in 128 and 256 dimensions; in part: in one",
        _lemma("lemma 1"),
        ("similarities",),
    ),
    Claim(
        "lemma-2",
        "lemma 2: the angle to the centre is almost always almost one constant",
        "2.3, eq. 10",
        "more than 0.15 radians off for fewer than 1% in 128 and 256 dimensions; in part: in one",
        _lemma("lemma 2"),
        ("similarities",),
    ),
    Claim(
        "lemma-3",
        "lemma 3: members of a cluster are perpendicular about its centre",
        "2.3, eq. 11",
        "a cosine beyond 0.25, of either sign, for fewer than 1% in 128 and 256 dimensions; in part: in one",
        _lemma("lemma 3"),
        ("similarities",),
    ),
    Claim(
        "lemmas-recorded",
        "the three lemmas hold of the embeddings that the algorithm is for",
        "2.3, eqs. 9 to 11",
        "beyond the same deltas fewer than 1%, for each lemma on voices and faces; in part: for some",
        _recorded_lemmas,
        ("similarities",),
    ),
    Claim(
        "granularity",
        "T_s sets how fine the substructure of clusters is",
        "3.3",
        "never fewer sub-clusters at a larger T_s, of five, in any stream, and twice as many at the largest as at the "
        "least; in part: the second alone",
        _granularity,
        ("behaviour",),
    ),
    Claim(
        "s-k",
        "the similarity of a member and the centroid of k others is s(k)",
        "2.3, eq. 13",
        "means within 0.01 for k up to 200 in 128 and 256 dimensions, and on recorded voices and faces; in part: some",
        _expected("s(k)"),
        ("similarities",),
    ),
    Claim(
        "s-kk",
        "the similarity of two centroids of a cluster is s(k, k')",
        "2.3, eq. 16",
        "means within 0.01 for k and k' up to 200, where s(k) is judged; in part: some",
        _expected("s(k, k')"),
        ("similarities",),
    ),
    Claim(
        "limits",
        "s(k, 1) = s(k), s rises with k, tends to T_c and to 1 (eqs. 14, 15, 17 and 18)",
        "2.3",
        "exact constructions and limits",
        by_test(
            f"{_UNIT}::test_thresholds_have_the_limits_of_the_page",
            f"{_UNIT}::test_thresholds_are_the_cosines_of_exact_orthogonal_constructions",
            f"{_UNIT}::test_similarities_rise_and_centroids_tend_to_the_centre",
        ),
    ),
    Claim(
        "thresholds",
        "s(k) and s(k, k') are thresholds of membership",
        "2.3, 3.3",
        "members pass them at the true cosine",
        by_test(
            f"{_UNIT}::test_half_of_the_members_fail_at_the_true_cosine",
            note="they are means: half of the members fall below, so T_c must be tuned lower (links.md, 5)",
            status=FAILS,
        ),
    ),
    Claim(
        "centroid",
        "the most likely centre is the centroid (eq. 6), the normalised sum in many dimensions (eq. 12)",
        "2.2, 2.3",
        "intrinsic mean and normalised sum within 1 degree in 128 and 256 dimensions; in part: in one",
        _centroid,
        ("similarities",),
    ),
    Claim(
        "two-levels",
        "two levels are efficient: cost goes with sub-clusters, not with vectors",
        "3.2",
        "at most a quarter more of them a person after twice as many vectors, at few sub-clusters; in part: on some",
        _growth,
        ("behaviour",),
    ),
    Claim(
        "graph",
        "sub-clusters merge and clusters split in response to new data, along edges of a graph",
        "3.2 to 3.4",
        "a plain form of the rules, step by step",
        by_test(
            f"{_REFERENCE}::test_equal_to_the_plain_form",
            f"{_REFERENCE}::test_after_every_step_the_forest_is_in_order",
            f"{_REFERENCE}::test_a_split_by_hand_in_the_plane",
        ),
    ),
    Claim(
        "pair-maximum",
        "correlations within grown sub-clusters lower the limit of s(k, k') to T_p < 1, with s(1, 1) = T_c^2",
        "3.5, eqs. 23 to 25",
        "whole recordings of one speaker: an interval below 1, and above one vector against one",
        _pair_maximum,
        ("similarities",),
    ),
    Claim(
        "elongation",
        "elongation along an axis lowers T_p further and leaves s(1, 1) as it is",
        "3.5",
        "two grown sub-clusters less similar than in round clusters (interval), two members as similar within 0.01, in "
        "128 and 256 dimensions; in part: one of the two",
        _elongated,
        ("similarities",),
    ),
    Claim(
        "tuning",
        "thresholds are tuned on labelled data for accuracy after the best one-to-one matching",
        "3.6",
        "on other persons at most 0.05 below where it was tuned, and above a preset, on every set; in part: some",
        _tuning,
    ),
    Claim(
        "costs",
        "other objectives weigh conflation against fracture",
        "3.6",
        "costs move the balance",
        by_test("tests/unit/test_links_tuning.py::test_costs_move_the_balance"),
    ),
    Claim(
        "diarization",
        "results on voice embeddings are in a separate paper (reference 6)",
        "1",
        "",
        not_attempted("numbers of another paper, on recordings that are not in the data; its encoder is used above"),
    ),
    Claim(
        "peers",
        "(ours) it is more accurate than every online peer that is not told the number of persons",
        "",
        "mean accuracy at least that of the best; in part: on some sets",
        _beats_peers,
    ),
    Claim(
        "budget",
        "(ours) and than DP-vMF-means in one pass that tries as many settings",
        "",
        "mean accuracy at least that of it on every set; in part: on some sets",
        _budget,
        ("behaviour",),
    ),
    Claim(
        "budget-peers",
        "(ours) and than linkscluster that tries as many settings",
        "",
        "mean accuracy at least that of it on every set; in part: on some sets",
        _budget_peers,
        ("budgets", "behaviour"),
    ),
    Claim(
        "known",
        "(ours) and than mini-batch k-means that is told the number (Links / k-means)",
        "",
        "mean accuracy at least that of it on every set; in part: on some sets",
        _beats_known_number,
    ),
    Claim(
        "ids",
        "(ours) it gives about as many ids as there are persons",
        "",
        "within a quarter; in part: on some sets",
        _number_of_ids,
    ),
)

SAID = (
    Said("abstract", "efficient online clustering of unit vectors", ("speed", "online")),
    Said("abstract, 1", "applied with success to faces and voices, in real time", ("recognises", "speed")),
    Said("1", "past assignments are fixed, which improves the model", ("past",)),
    Said("1", "complementary to small-variance methods", ("complement",)),
    Said("1", "voice results in a separate paper", ("diarization",)),
    Said("2.1", "the density of the angle to the centre", ("ring",)),
    Said("2.1, 2.2", "isotropic clusters; the centroid is the most likely centre", ("centroid",)),
    Said("2.2", "membership by the mass of likelier places (eqs. 7, 8), approximated by s(k)", ("thresholds",)),
    Said("2.3", "lemma 1", ("lemma-1",)),
    Said("2.3", "lemma 2", ("lemma-2",)),
    Said("2.3", "lemma 3", ("lemma-3",)),
    Said("1, 2.3", "embeddings of voices and faces are such vectors", ("lemmas-recorded",)),
    Said("2.3", "centroid and threshold s(k)", ("s-k", "thresholds")),
    Said("2.3", "limits: the estimate improves with k", ("limits",)),
    Said("2.3", "s(k, k') for two clusters", ("s-kk",)),
    Said("3.1", "an id at once, no backtracking; the model may change", ("online", "past")),
    Said("3.2", "a two-level hierarchy is efficient and practical", ("two-levels",)),
    Said("3.3", "T_s sets the granularity", ("granularity",)),
    Said("3.2 to 3.4", "sub-clusters join, merge and split", ("graph",)),
    Said("3.5", "T_p, the limit of grown sub-clusters", ("pair-maximum",)),
    Said("3.5", "elongation reduces T_p further", ("elongation",)),
    Said("3.6", "tuning by matched accuracy", ("tuning",)),
    Said("3.6", "other weights of errors", ("costs",)),
)


def _accuracies(results: Results) -> str:
    """Every method on every set: accuracy, ids, microseconds."""
    names = list(results["sets"])
    every = dict.fromkeys(method for entry in results["sets"].values() for method in _methods(entry))
    table = "## Accuracy after matching / ids, at the end of the test streams\n\n"
    table += f"| method | {' | '.join(names)} |\n" + "| --- " * (1 + len(names)) + "|\n"
    for method in every:
        cells = []
        for name in names:
            entry = results["sets"][name]
            if method in _methods(entry):
                cells.append(f"{final(entry, method):.3f} / {final(entry, method, 'n_ids'):.0f}")
            else:
                cells.append("")
        table += f"| {method} | {' | '.join(cells)} |\n"
    persons = [f"{final(results['sets'][name], LINKS, 'n_persons'):.0f}" for name in names]
    return table + f"| persons | {' | '.join(persons)} |\n"


def _settings(results: Results) -> str:
    """What tuning chose, in both directions."""
    lines = ["## Settings that tuning chose (tuned on the first half, on the second)\n"]
    for name, entry in results["sets"].items():
        for method in _methods(entry):
            chosen = [way["methods"][method]["settings"] for way in entry["directions"]]
            lines.append(f"- {name}, {method}: " + "; ".join(_words(settings) for settings in chosen))
    return "\n".join(lines) + "\n"


def _words(settings: Results) -> str:
    if "thresholds" in settings:
        return "T_c {:.3f}, T_s {:.3f}, T_p {:.3f}".format(*settings["thresholds"])
    return ", ".join(f"{key} {value:.4g}" for key, value in settings.items())


_NOTES = """## What stands behind the lines

**Streams.** Recordings come in a random order, windows of a recording (1.6 s, every 0.5 s) in time; each picture of a
face is a recording. Persons are cut into two halves at random; every method is tuned on streams of one half and tested
on three streams of the other, then the other way round: means of six. Accuracy is that of the answers given when each
vector came, after the best one-to-one matching; vectors of unmatched ids are errors.

**Runs** is what stands behind a line; "95%" is an interval of the mean over them, for comparisons that of the
differences on the same streams. Streams of a set share vectors: its intervals tell of orders, not of other people.

**Made clusters** (`similarities.py`) have the density of the paper's eqs. 2 and 3 with a mode of 45 degrees; of
recorded ones, vectors of different recordings are taken as independent members. `behaviour.py` has the rest. The three
lemmas on recorded vectors take one vector from each of ten recordings of a person; the others make the centre.

**Tuning.** `tune_links` on three orders. "Few sub-clusters" is the best of the settings it tried with at most three
sub-clusters a person: nearly one sub-cluster for every vector can be the most accurate, and is slow. linkscluster may
choose from our eight best settings and its own preset, DP-vMF-means in one pass from 17 angles: all on one order, the
best three on the same three orders; the latter answers 16 vectors at a time, after they were learned. DBSTREAM, which
is slow, has 14 settings on the first 400 vectors of one order. Those are smaller budgets than that of Links: with as
many settings linkscluster and DP-vMF-means have lines of their own (`behaviour.py`, `budgets.py`). Mini-batch k-means
needs the true number of persons, sees 64 vectors (at first four times the number of persons) before it answers, and has
no other setting.

**Peers** answer in a process of their own: the time below has their seconds by the clock, and not those of CPU.

**linkscluster** is the same algorithm with other answers where the paper is silent (order of merges, partner of a
re-joining edge, the id before or after the update), and each is given the setting that was best for it on the tuning
half: differences between the two come from there.
"""
