"""The paper's claims beside what `run.py` measured: one function for each, which reads the results and gives a verdict.

`claims.md` is written from `results.json`, so that the page cannot say what was not measured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Results = dict[str, Any]
Verdict = tuple[str, str]  # what was measured, status

HOLDS, PARTLY, FAILS = "holds", "holds in part", "does not hold here"
SKIPPED, OPEN = "skipped", "not attempted"

_HEAD = """# Straub, Campbell, How and Fisher (2015): claims and outcomes

Small-variance nonparametric clustering on the hypersphere, CVPR 2015. This page is written by `run.py` from
`results.json`; do not edit it.

    ARMILLARY_SHARED_DATA=... python papers/straub2015_small_variance/run.py

| claim | where | script | tolerance | measured | status |
| --- | --- | --- | --- | --- | --- |
"""


class Claim(NamedTuple):
    """What the paper says, and how it is judged."""

    claim: str
    where: str
    script: str
    tolerance: str
    judge: Callable[[Results], Verdict]


class Line(NamedTuple):
    """A claim with its outcome."""

    claim: str
    where: str
    script: str
    tolerance: str
    measured: str
    status: str


def lines(results: Results) -> list[Line]:
    """All claims, judged."""
    return [Line(*claim[:4], *claim.judge(results)) for claim in CLAIMS]


def page(results: Results) -> str:
    """`claims.md`."""
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines(results))
    return f"{_HEAD}{table}\n{_notes(results)}"


# ------------------------------------------------------------------------------------------------- section 7.1


def _value(line: dict[str, float], digits: int = 3) -> str:
    return f"{line['mean']:.{digits}f} ± {line['sd']:.{digits}f}"


def _best(by_angle: Results, measure: str) -> tuple[str, dict[str, float]]:
    angle = max(by_angle, key=lambda one: by_angle[one][measure]["mean"])
    return angle, by_angle[angle][measure]


def _nmi_of_dp(results: Results) -> Verdict:
    main = results["synthetic"]["main"]
    angle, line = _best(main["by_angle"], "nmi")
    return f"{_value(line)} at {angle}° ({main['n_runs']} runs)", HOLDS if line["mean"] >= 0.985 else FAILS


def _nmi_of_kmeans(results: Results) -> Verdict:
    by_number = results["synthetic"]["main"]["by_number"]
    line, plus = by_number["k-means, random rows"]["30"]["nmi"], by_number["k-means, k-means++"]["30"]["nmi"]
    measured = f"{_value(line)} from random rows; greedy k-means++, our default, closes the gap: {_value(plus)}"
    return measured, HOLDS if abs(line["mean"] - 0.94) <= 0.01 else FAILS


def _silhouette_of_dp(results: Results) -> Verdict:
    main = results["synthetic"]["main"]
    angle, line = _best(main["by_angle"], "silhouette")
    measured = f"{_value(line)} at {angle}°; true labels {main['true_silhouette']:.3f}"
    return measured, HOLDS if abs(line["mean"] - 0.92) <= 0.01 else FAILS


def _finds_thirty(results: Results) -> Verdict:
    curves, main = results["synthetic"]["curves"], results["synthetic"]["main"]
    near = [float(a) for a, line in curves["by_angle"].items() if abs(line["n_clusters"]["mean"] - 30.0) <= 1.0]
    numbers = ", ".join(f"{a}°: {line['n_clusters']['mean']:.1f}" for a, line in main["by_angle"].items())
    if not near:
        return f"no angle gives 30 ± 1; {numbers}", FAILS
    measured = f"within one of 30 from {min(near):g}° to {max(near):g}° (N = {curves['n_rows']:,}); {numbers}"
    return f"{measured} (N = {main['n_rows']:,})", HOLDS if max(near) >= 2.0 * min(near) else PARTLY


def _same_as_reference(results: Results) -> Verdict:
    compared = results["synthetic"]["expected"]
    errors = [abs(line["errors"]) for line in compared]
    n_within = sum(error <= 2.0 for error in errors)
    measured = f"{n_within} of {len(errors)} within two, the farthest at {max(errors):.1f}"
    return measured, HOLDS if n_within >= 0.8 * len(errors) and max(errors) <= 3.5 else FAILS


def _scenes(judge: Callable[[Results], Verdict]) -> Callable[[Results], Verdict]:
    def judged(results: Results) -> Verdict:
        scenes = results["scenes"]
        return (scenes["skipped"], SKIPPED) if "skipped" in scenes else judge(scenes)

    return judged


def _range(counts: list[int]) -> str:
    found = [number for number, count in enumerate(counts) if count]
    return f"{found[0]} to {found[-1]}, most often {counts.index(max(counts))}"


def _why_fewer(results: Results) -> str:
    """Why NYU v2 has fewer clusters at 100 degrees here than in the paper."""
    why = results["scenes"].get("why")
    if why is None:
        return ""
    told = "; ".join(f"{name}: {_range(counts)}" for name, counts in why.items())
    return (
        "**NYU v2 at 100 degrees** has fewer clusters here because the stored "
        "normals face the camera and fit planes: none\n"
        "lies beyond 100 degrees of a cluster in their middle. Normals of all "
        "pixels have strays. With 10 % of the normals\n"
        "replaced by strays over the whole sphere at 100 degrees, or clean "
        "ones at 65 to 70, the paper's histogram comes\n"
        f"back, with its peak at 4 (angle, normals: clusters in a scene): {told}\n"
        "(`scenes.why`).\n\n"
    )


@_scenes
def _numbers_in_scenes(scenes: Results) -> Verdict:
    at = {angle: _range(line["n_clusters"]) for angle, line in scenes["by_angle"].items()}
    measured = f"at 100°: {at['100']}; at 80°: {at['80']}; at 60°: {at['60']} ({scenes['n_scenes']} scenes)"
    return measured, HOLDS if at["100"].endswith(" 4") else FAILS


@_scenes
def _silhouette_in_scenes(scenes: Results) -> Verdict:
    by_angle = scenes["by_angle"]
    best = max(by_angle, key=lambda angle: by_angle[angle]["silhouette"])
    measured = f"best {by_angle[best]['silhouette']:.2f} at {best}°; {by_angle['100']['silhouette']:.2f} at 100°"
    if best == "100":
        return measured, HOLDS
    return measured, PARTLY if by_angle[best]["silhouette"] >= 0.74 else FAILS


@_scenes
def _kmeans_in_scenes(scenes: Results) -> Verdict:
    by_number, by_angle = scenes["by_number"], scenes["by_angle"]
    best = max(by_number, key=lambda number: by_number[number]["silhouette"])
    best_dp = max(line["silhouette"] for line in by_angle.values())
    ours = by_number[best]["silhouette"]
    at_four = by_number["4"]["silhouette"]
    measured = f"best {ours:.3f} at K = {best} ({at_four:.3f} at K = 4), against {best_dp:.3f} of DP-vMF-means"
    if best_dp <= ours:
        return measured, FAILS
    return measured, HOLDS if best == "4" else PARTLY


# ------------------------------------------------------------------------------------------------- section 7.2


def _of_streams(results: Results, angle: str, methods: tuple[str, ...], measure: str, form: str) -> str:
    words = []
    for name in ("room", "corridor", "tum"):
        stream = results["streams"][name]
        if "skipped" in stream:
            words.append(f"{name}: skipped")
            continue
        values = [stream["by_angle"][angle][method][measure] for method in methods]
        words.append(f"{name} " + " / ".join("none" if value is None else form.format(value) for value in values))
    return "; ".join(words)


def _measured(results: Results) -> list[Results]:
    return [stream for stream in results["streams"].values() if "skipped" not in stream]


def _ddp_is_consistent(results: Results) -> Verdict:
    methods = ("sequential", "ddp", "ddp, known rotation")
    parts = [
        f"{angle}°, ids in all: {_of_streams(results, angle, methods, 'n_ids', '{}')}; "
        f"agreement: {_of_streams(results, angle, methods, 'agreement', '{:.2f}')}"
        for angle in ("100", "80")
    ]
    wins = [
        stream["by_angle"][angle]["ddp"]["agreement"] - stream["by_angle"][angle]["sequential"]["agreement"]
        for stream in _measured(results)
        for angle in ("100", "80")
    ]
    if all(win >= -0.01 for win in wins) and any(win > 0.01 for win in wins):
        return ". ".join(parts), HOLDS
    return ". ".join(parts), PARTLY if any(win > 0.01 for win in wins) else FAILS


def _sequential_forgets(results: Results) -> Verdict:
    room, noisy = (results["streams"][name]["by_angle"]["80"] for name in ("room", "noisy room"))
    kept = [line[method]["n_ids"] for line in (room, noisy) for method in ("sequential", "ddp")]
    measured = (
        f"a wall that leaves the room and comes back (80°, six planes): {kept[0]} ids sequential, {kept[1]} DDP; "
        f"with 2% noise, which keeps every cluster alive, {kept[2]} and {kept[3]}"
    )
    if kept[0] <= kept[1]:
        return measured, FAILS
    return measured, HOLDS if kept[2] > kept[3] else PARTLY


def _batch_has_no_ids(results: Results) -> Verdict:
    changes = _of_streams(results, "100", ("batch", "sequential", "ddp"), "id_changes", "{:.0f}")
    found = [stream["by_angle"]["100"] for stream in _measured(results)]
    is_worse = all(line["batch"]["id_changes"] >= 2.0 * line["ddp"]["id_changes"] for line in found)
    return f"id changes in 100 sightings: {changes}", HOLDS if is_worse else FAILS


# ---------------------------------------------------------------------------------------------- whole images, ours

IMAGE_METHODS = ("batch", "sequential", "ddp", "ddp, turn followed")


def _image_streams(results: Results) -> dict[str, Results]:
    return {name: one for name, one in results["images"]["streams"].items() if "skipped" not in one}


def _image_scenes(results: Results) -> Verdict:
    found = results["images"]["scenes"]
    if "skipped" in found["8 bits"]:
        return found["8 bits"]["skipped"], SKIPPED
    words, wins = [], []
    for name, one in found.items():
        angle = max(one["by_angle"], key=lambda a: one["by_angle"][a]["silhouette"])
        number = max(one["by_number"], key=lambda k: one["by_number"][k]["silhouette"])
        best, rival = one["by_angle"][angle]["silhouette"], one["by_number"][number]["silhouette"]
        at_100 = one["by_angle"]["100"]["silhouette"]
        wins.append(best > rival)
        words.append(
            f"{one['n_scenes']} images of {name}: {best:.2f} at {angle}° ({at_100:.2f} at 100°), K = "
            f"{_range(one['by_angle'][angle]['n_clusters'])}; k-means {rival:.2f} at K = {number}"
        )
    return "; ".join(words), HOLDS if all(wins) else PARTLY if any(wins) else FAILS


def _image_room(results: Results) -> Verdict:
    room = results["images"]["streams"]["room"]["by_angle"]
    words = []
    for angle, lines in room.items():
        back = " / ".join(f"{lines[name]['same_id_back']:.2f}" for name in IMAGE_METHODS)
        pure = " / ".join(f"{lines[name]['id_purity']:.2f}" for name in IMAGE_METHODS)
        ids = " / ".join(str(lines[name]["n_ids"]) for name in IMAGE_METHODS)
        words.append(f"{angle}°: same id on the way back {back}; id purity {pure}; ids {ids}")
    wins = []
    for lines in room.values():
        followed, sequential = (lines[name]["same_id_back"] for name in ("ddp, turn followed", "sequential"))
        wins.append(followed >= 0.95 and sequential < followed - 0.02)
    return ". ".join(words), HOLDS if all(wins) else PARTLY if any(wins) else FAILS


def _image_recorded(results: Results) -> Verdict:
    streams = {name: one for name, one in _image_streams(results).items() if name != "room"}
    if not streams:
        return results["images"]["streams"]["corridor"]["skipped"], SKIPPED
    words, wins = [], []
    for name, stream in streams.items():
        for angle, lines in stream["by_angle"].items():
            spread = " / ".join(f"{lines[method]['spread']:.0f}" for method in IMAGE_METHODS)
            agreement = " / ".join(f"{lines[method]['agreement']:.2f}" for method in IMAGE_METHODS)
            words.append(f"{name} {angle}°: spread {spread} degrees, agreement {agreement}")
            wins.append(lines["ddp, turn followed"]["agreement"] >= lines["sequential"]["agreement"] - 0.01)
    return "; ".join(words), HOLDS if all(wins) else PARTLY if any(wins) else FAILS


def _image_times(results: Results) -> Verdict:
    words, rates = [], []
    for name, stream in _image_streams(results).items():
        width, height = stream["size"]
        lines = next(lines for angle, lines in stream["by_angle"].items() if angle != "100")
        ddp = lines["ddp, turn followed"]
        stages = stream["milliseconds"] | {"clustering": ddp["clustering"], "labels": ddp["labels"]}
        spent = ", ".join(f"{stage} {line['least']:.1f} ({line['median']:.1f})" for stage, line in stages.items())
        others = ", ".join(f"{one} {lines[one]['clustering']['least']:.1f}" for one in ("batch", "sequential", "ddp"))
        total = sum(line["least"] for line in stages.values())
        rates.append((1e3 / total, 1e3 / sum(line["median"] for line in stages.values())))
        words.append(
            f"{name}, {width} x {height}: {spent}; clustering by {others}; {rates[-1][0]:.0f} ({rates[-1][1]:.0f}) "
            f"frames a second, load {stream['load'][0]:g}"
        )
    told = f"least (median) milliseconds, CPU: {'. '.join(words)}"
    if all(median > 30.0 for _, median in rates):
        return told, HOLDS
    return told, PARTLY if all(best > 30.0 for best, _ in rates) else FAILS


def _open(_: Results) -> Verdict:
    return "", OPEN


CLAIMS = (
    Claim("DP-vMF-means reaches an NMI of 0.99", "7.1, Fig. 3", "synthetic.py", "0.985 or more", _nmi_of_dp),
    Claim(
        "spherical k-means reaches 0.94 even with the true K", "7.1, Fig. 3", "synthetic.py", "± 0.01", _nmi_of_kmeans
    ),
    Claim("DP-vMF-means reaches a silhouette of 0.92", "7.1, Fig. 3", "synthetic.py", "± 0.01", _silhouette_of_dp),
    Claim(
        "the true number, 30, is found, and depends little on the angle",
        "7.1, Fig. 3",
        "synthetic.py",
        "within one of 30 for angles that span a factor of two; in part: for some angle",
        _finds_thirty,
    ),
    Claim(
        "(ours) means are those of a first implementation over 50 other runs",
        "`EXPECTED` in synthetic.py",
        "synthetic.py",
        "80% within two standard errors of a difference, all within 3.5",
        _same_as_reference,
    ),
    Claim(
        "NYU v2 at 100°: from 3 to 11 clusters in a scene, most often 4",
        "7.1, Fig. 4",
        "scenes.py",
        "the same peak",
        _numbers_in_scenes,
    ),
    Claim(
        "NYU v2: the mean silhouette is best at 100°, with 0.75",
        "7.1, Fig. 4",
        "scenes.py",
        "the same angle; in part: 0.74 or more at another",
        _silhouette_in_scenes,
    ),
    Claim(
        "NYU v2: k-means is best at K = 4 with 0.73, below DP-vMF-means",
        "7.1, Fig. 4",
        "scenes.py",
        "the same K and order; in part: the order",
        _kmeans_in_scenes,
    ),
    Claim(
        "over a turn of 90° only DDP-vMF-means is consistent (sequential / DDP / DDP with known rotation)",
        "7.2, Fig. 6",
        "views.py, baselines.py",
        "agreement of DDP above sequential on all streams; in part: on some",
        _ddp_is_consistent,
    ),
    Claim(
        "sequential DP-vMF-means gives clusters that come back new ids, DDP-vMF-means their old ones",
        "7.2, Fig. 6",
        "views.py, baselines.py",
        "fewer ids; in part: without noise only",
        _sequential_forgets,
    ),
    Claim(
        "batch DP-vMF-means has no consistency between frames (batch / sequential / DDP)",
        "7.2, Fig. 6",
        "views.py, baselines.py",
        "at least twice as many changes as DDP, on every stream",
        _batch_has_no_ids,
    ),
    Claim(
        "(whole images) DP-vMF-means has a better mean silhouette than k-means with any K (0.75 and 0.73)",
        "7.1, Fig. 4",
        "depth_images.py",
        "the order, for both kinds of depth; in part: for one",
        _image_scenes,
    ),
    Claim(
        "(whole images, rendered room) walls that return have the id they had only by DDP-vMF-means (batch / "
        "sequential / DDP / DDP with the turn followed)",
        "7.2, Fig. 6",
        "depth_images.py",
        "0.95 or more with the turn followed, and sequential below it, at both angles; in part: at one",
        _image_room,
    ),
    Claim(
        "(whole images, recorded) ids stay with their planes (the same four)",
        "7.2, Fig. 6",
        "depth_images.py",
        "agreement of DDP with the turn followed not below sequential; in part: on some",
        _image_recorded,
    ),
    Claim(
        "300,000 normals at 30 Hz; smoothing 11 ms, 28.4 ms batch, 12.8 sequential, 20.4 DDP (GPU)",
        "1, 7.2",
        "depth_images.py, benchmarks/vision.py",
        "more than 30 frames a second by the medians, all stages; in part: by the least times, which other work on the "
        "machine does not add to",
        _image_times,
    ),
    Claim(
        "a CRP sampler does not finish in two days; a truncated one finds 23 clusters, NMI 0.94",
        "7.1",
        "",
        "",
        _open,
    ),
)


def _image_table(results: Results) -> str:
    """Ids in all / large ones / their different directions, and the spread, of every method on whole images."""
    columns = [(name, angle) for name, one in _image_streams(results).items() for angle in one["by_angle"]]
    table = (
        "Ids in all / ever above 3% of a frame / different directions of these in the world / spread in degrees.\n\n"
    )
    table += "| method | " + " | ".join(f"{name} {angle}°" for name, angle in columns) + " |\n"
    table += "| --- " * (1 + len(columns)) + "|\n"
    for method in IMAGE_METHODS:
        cells = []
        for name, angle in columns:
            line = results["images"]["streams"][name]["by_angle"][angle][method]
            cells.append(f"{line['n_ids']} / {line['n_large_ids']} / {line['n_directions']} / {line['spread']:.1f}")
        table += f"| {method} | " + " | ".join(cells) + " |\n"
    return table


def _notes(results: Results) -> str:
    streams = [(name, stream) for name, stream in results["streams"].items() if "skipped" not in stream]
    drift, n_rows = streams[0][1]["drift_concentration"], streams[0][1]["n_rows"]
    head = f"""## What stands behind the lines

**Settings that the paper leaves open** (Figure 3) are in `synthetic.py`: concentration 325, directions at least 18
degrees apart.

**Streams.** `max_angle` 100 degrees as in the paper, and 80. H = 400. The paper's beta = 1e5 weighs memory against
frames of 300,000 normals; with frames of {n_rows:,} the same balance is beta = {drift:.0f}, which "ddp" means here.
Agreement is the NMI of ids and planes over the rows of all frames; for recorded streams planes are clusters of all
normals turned into the world by the poses (`views.py`). Poses of "tum" were measured; those of "corridor" are an
estimate from its walls, so its known rotation flatters a little.

**Sequential** has no ids of its own. Here a cluster keeps its id while rows choose it, whatever becomes of it; an id
can so wander to another plane. "Ids by direction" gives a new id to a cluster that jumps by more than half of
`max_angle`: more ids, each worth more. The paper does not tell its rule, and how "sequential" fares depends on it.

**100 degrees** is more than the right angle between walls: two walls then share a cluster unless stray rows split
them. In the room, the corridor and NYU v2 an angle of 80 degrees tells walls apart and has the better silhouettes; the
cluttered desk of "tum" has the better ones at 100.

{_why_fewer(results)}**Whole images** (`depth_images.py`) are segmented by `armillary.vision`: a guided filter,
normals, then each method on every normal of the frame. "Turn followed" is ours: how the view
turned is estimated from the clusters in sight, what is remembered turns by it first, and beta is
a hundred times the paper's, since little drift is left. It needs an angle that tells walls apart:
the mean of two walls in one cluster moves without any turn. "Spread" is how far the directions of
an id, turned into the world by the poses, lie from their mean. NYU v2 is there in 8 bits only
(steps of 39 mm: wide windows and total variation), besides ten frames of 16 bits.

{_image_table(results)}
Every setting on ready-made normals, by stream and angle: ids in all / agreement / id changes in 100 sightings / mean
silhouette of a frame.

"""
    columns = [(name, angle) for name, _ in streams for angle in ("100", "80")]
    table = "| method | " + " | ".join(f"{name} {angle}°" for name, angle in columns) + " |\n"
    table += "| --- " * (1 + len(columns)) + "|\n"
    for method in streams[0][1]["by_angle"]["100"]:
        cells = []
        for name, angle in columns:
            line = results["streams"][name]["by_angle"][angle][method]
            cells.append(
                f"{line['n_ids']} / {line['agreement']:.2f} / {line['id_changes']:.0f} / {line['silhouette']:.2f}"
            )
        table += f"| {method} | " + " | ".join(cells) + " |\n"
    return head + table
