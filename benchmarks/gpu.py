"""The GPU engine: labels held to float64 brute force, fits to the CPU's bytes, times beside floors and peers.

    python -m benchmarks.gpu --output benchmarks/results/gpu.json [--part labels fits times ...]

Times are medians by device events after a warm-up. Floors are of the card at hand, measured in the same run: bytes over
the speed of a large copy, operations over that of a large fp16 product. Peers are written in torch. Each part writes
what it found at once, so that a run that is cut short leaves the rest.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import statistics
import tempfile
import time
import warnings
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
import triton

import armillary
from armillary.engines import cuda_sources, cuda_stream
from armillary.engines.select import engine
from armillary.kernels.gpu import start
from armillary.rules import AffineRule

CUDA = "cuda"
DATA = "../shared/data"


def median_ms(task, n=15, warm=3):
    """The median time of a task by device events."""
    for _ in range(warm):
        task()
    torch.cuda.synchronize()
    times = []
    for _ in range(n):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        task()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


def unit(n, d, seed, n_clusters=0, spread=0.5, dtype=torch.float32):
    """Unit rows on the device, around centres or everywhere."""
    generator = torch.Generator(device=CUDA).manual_seed(seed)
    rows = torch.empty((n, d), dtype=dtype, device=CUDA)
    centers = torch.randn((max(1, n_clusters), d), generator=generator, device=CUDA)
    centers /= centers.norm(dim=1, keepdim=True)
    step = max(1, (1 << 27) // d)
    for first in range(0, n, step):
        m = min(step, n - first)
        part = torch.randn((m, d), generator=generator, device=CUDA)
        if n_clusters:
            own = torch.randint(n_clusters, (m,), generator=generator, device=CUDA)
            part = centers[own] + spread / d**0.5 * part
        rows[first : first + m] = (part.double() / part.double().norm(dim=1, keepdim=True)).to(dtype)
    return rows


def directions(rows, k, seed):
    """K rows as directions, unit in float64."""
    numbers = np.random.default_rng(seed).choice(len(rows), k, replace=len(rows) < k)
    found = rows[torch.from_numpy(numbers).to(rows.device)].double().cpu().numpy()
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def opened(rows, weights=None):
    """Passes on the GPU."""
    home = engine(CUDA)
    return home.open(home.points(rows, "bench", weights), None, "bench")


def machine():
    """What it ran on."""
    card = torch.cuda.get_device_properties(0)
    return {
        "card": card.name,
        "memory_gib": round(card.total_memory / 2**30, 1),
        "multiprocessors": card.multi_processor_count,
        "torch": torch.__version__,
        "triton": triton.__version__,
        "cuda": torch.version.cuda,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def ceilings():
    """What the card at hand does at best."""
    one = torch.empty(1 << 30, dtype=torch.float32, device=CUDA).normal_()
    two = torch.empty_like(one)
    copy = median_ms(lambda: two.copy_(one))
    a = torch.randn((8192, 8192), device=CUDA, dtype=torch.float16)
    b = torch.randn((8192, 8192), device=CUDA, dtype=torch.float16)
    product = median_ms(lambda: a @ b)
    return {"bytes_per_s": 2 * one.numel() * 4 / copy * 1e3, "fp16_per_s": 2 * 8192**3 / product * 1e3}


# ------------------------------------------------------------------------------------------------------- labels


def hard_cases(seed):
    """Rows and rules that tempt a filter: name, rows, rule."""
    rng = np.random.default_rng(seed)
    rows = unit(200_000, 96, seed)
    directed = directions(rows, 200, seed)
    yield "plain", rows, AffineRule.cosines(directed)
    yield "floor", rows, AffineRule.cosines(directed, 0.25)
    yield "doubled clusters", rows, AffineRule.cosines(np.repeat(directed[:100], 2, axis=0))
    turned = directed.copy()
    turned[100:] = directed[:100] + 1e-9 * rng.standard_normal((100, 96))
    yield "near ties", rows, AffineRule.cosines(turned)
    yield "all clusters equal", rows[:20_000], AffineRule.cosines(np.repeat(directed[:1], 300, axis=0))
    middles = rows.clone()
    centers = torch.from_numpy(directed[:2]).to(rows)
    middles[:] = centers.sum(dim=0) / centers.sum(dim=0).norm()
    yield "rows midway", middles[:50_000], AffineRule.cosines(directed[:2])
    # large terms that cancel: what an accumulator with few bits would lose
    cancel = torch.zeros((100_000, 256), device=CUDA)
    signs = torch.from_numpy(rng.choice([-1.0, 1.0], (100_000, 128))).to(cancel)
    cancel[:, 0::2], cancel[:, 1::2] = signs, signs
    cancel += 1e-3 * torch.randn(cancel.shape, device=CUDA)
    cancel = (cancel.double() / cancel.double().norm(dim=1, keepdim=True)).float()
    against = rng.standard_normal((64, 256)) * 1e-3
    against[:, 0::2] += 1.0
    against[:, 1::2] -= 1.0
    yield "cancelling rows", cancel, AffineRule.cosines(against / np.linalg.norm(against, axis=1, keepdims=True))
    slopes = rng.gamma(2.0, 100.0, 200)
    yield "slopes and offsets", rows, AffineRule(slopes[:, None] * directed, 50.0 * rng.standard_normal(200), -20.0)
    rivals = rng.random(200) < 0.2
    yield "rivals", rows, AffineRule(directed, np.zeros(200), 0.2, rivals)
    yield "float64 rows", unit(50_000, 50, seed + 1, dtype=torch.float64), AffineRule.cosines(directed[:70, :50])
    yield "one cluster", rows[:10_000], AffineRule.cosines(directed[:1])
    yield (
        "two columns",
        unit(100_000, 2, seed),
        AffineRule.cosines(np.stack([np.cos(np.arange(9)), np.sin(np.arange(9))], 1)),
    )
    yield "nine columns", unit(100_001, 9, seed), AffineRule.cosines(directions(unit(500, 9, 3), 130, 1))
    yield "8,192 columns", unit(3_001, 8192, seed), AffineRule.cosines(directions(unit(500, 8192, 3), 40, 1))
    yield "100,000 clusters", unit(5_003, 64, seed), AffineRule.cosines(directions(unit(100_000, 64, 3), 100_000, 1))


def differences(rows, rule):
    """Labels unlike brute force in float64; and how many rows the filter could not tell, and pairs it left."""
    with opened(rows) as passes:
        labels = passes.labels()
        passes.label(rule, labels, sums=False)
        counted = passes.chooser._counted()
        found = labels.values.clone()
        given = start.DeviceRule.of(rule)
        passes.chooser.brute(given, (0, len(rows)), is_plain=True)
        best = passes.points.scratch.found
        wanted = torch.where(best < 0, torch.full_like(best, -1), best)
        return int((found != wanted).sum()), counted.n_listed, counted.n_pairs


def unlike_the_cpu(rows, rule):
    """Labels unlike those of the CPU's engine; None where that cannot run, for want of numba."""
    if importlib.util.find_spec("numba") is None:
        return None
    found = []
    for name, given in (("cpu", rows if sp.issparse(rows) else rows.cpu().numpy()), (CUDA, rows)):
        home = engine(name)
        with home.open(home.points(given, "bench"), 1, "bench") as passes:
            labels = passes.labels()
            passes.label(rule, labels, sums=False)
            found.append(labels.to_host())
    return int((found[0] != found[1]).sum())


def labels_part(scale):
    """Labels held to brute force, and to the CPU on samples."""
    found = {"cases": {}, "rows": 0, "differences": 0}
    for name, rows, rule in hard_cases(5):
        wrong, listed, pairs = differences(rows, rule)
        unlike_cpu = unlike_the_cpu(rows[:2_000].clone(), rule)
        found["cases"][name] = {
            "rows": len(rows), "clusters": len(rule.offsets), "columns": rows.shape[1], "differences": wrong,
            "unlike_cpu_of_2000": unlike_cpu, "rows_in_doubt": listed, "pairs": pairs,
        }  # fmt: skip
        found["rows"] += len(rows)
        found["differences"] += wrong + (unlike_cpu or 0)
        print("labels", name, found["cases"][name])
    # many rows: brute force on the device in float64, column order
    total, work = 0, 0
    for number, (n, d, k, own) in enumerate(
        [(20_000_000, 64, 200, 0), (20_000_000, 32, 500, 200), (4_000_000, 128, 1000, 500), (1_000_000, 384, 1000, 500)]
    ):
        rows = unit(n, d, 100 + number, own)
        for again in range(max(1, round(scale * (10 if number < 2 else 2)))):
            rule = AffineRule.cosines(directions(rows, k, again))
            wrong, listed, _ = differences(rows, rule)
            found["differences"] += wrong
            total, work = total + n, work + n * d * k
            print("labels many", n, d, k, "differences", wrong, "in doubt", listed)
        del rows
    found["rows"] += total
    found["mean_k_times_d"] = work / max(1, total)
    return found


# --------------------------------------------------------------------------------------------------------- fits


def model_bytes(model):
    """The file of a model."""
    with tempfile.TemporaryDirectory() as folder:
        model.set_params(device=None)
        armillary.save(model, Path(folder) / "model")
        return (Path(folder) / "model").read_bytes()


def fits_part(scale):
    """Whole fits on both engines."""
    found = {}
    wide = unit(int(30_000 * scale), 96, 1, 20, 0.6).cpu().numpy()
    narrow = unit(int(50_000 * scale), 3, 2, 6, 0.3).cpu().numpy()
    weights = np.random.default_rng(0).gamma(1.0, size=len(wide))
    same = {"random_state": 0, "max_iter": 5}
    # name: how it is made, and whether its file is promised to the byte
    kinds = {
        "SphericalKMeans": (lambda d: armillary.SphericalKMeans(20, random_state=0, n_init=1, device=d), True),
        "DPvMFMeans": (lambda d: armillary.DPvMFMeans(max_angle=0.9, max_iter=5, device=d), True),
        "DDPvMFMeans": (lambda d: armillary.DDPvMFMeans(max_angle=0.9, device=d), True),
        "VonMisesFisherMixture": (lambda d: armillary.VonMisesFisherMixture(5, device=d, **same), False),
        "BayesianVonMisesFisherMixture": (
            lambda d: armillary.BayesianVonMisesFisherMixture(5, device=d, **same),
            False,
        ),
        "HierarchicalVonMisesFisherMixture": (
            lambda d: armillary.HierarchicalVonMisesFisherMixture(device=d, **same),
            False,
        ),
        "SoftKMeans": (lambda d: armillary.SoftKMeans(5, device=d, **same), False),
    }
    for name, (make, is_whole) in kinds.items():
        for case, rows, own in (("wide", wide, None), ("wide, weights", wide, weights), ("narrow", narrow, None)):
            if own is not None and name in ("DDPvMFMeans", "HierarchicalVonMisesFisherMixture"):
                continue
            files, models, seconds = [], [], []
            for device in ("cpu", CUDA):
                begin = time.perf_counter()
                model = make(device)
                given = {} if own is None else {"sample_weight": own}
                model.partial_fit(rows, **given) if name == "DDPvMFMeans" else model.fit(rows, **given)
                seconds.append(time.perf_counter() - begin)
                models.append(model)
                files.append(model_bytes(model))
            labels = [np.asarray(model.labels_) for model in models]
            centers = [
                getattr(m, "cluster_centers_", getattr(m, "means_", getattr(m, "mean_directions_", None)))
                for m in models
            ]
            apart = (
                None
                if centers[0] is None or np.shape(centers[0]) != np.shape(centers[1])
                else float(np.abs(np.asarray(centers[0]) - np.asarray(centers[1])).max())
            )
            entry = {
                "same_bytes": files[0] == files[1], "promised": "bytes" if is_whole else "labels, sums to 1e-5",
                "labels_unlike": int((labels[0] != labels[1]).sum()) if labels[0].shape == labels[1].shape else -1,
                "largest_difference": apart, "seconds_cpu_cold": round(seconds[0], 3),
                "seconds_gpu": round(seconds[1], 3),
            }  # fmt: skip
            if is_whole and case == "wide":
                repeats = 100 if name == "SphericalKMeans" else 5
                entry["repeats"] = repeats
                small = rows[:3000]
                first = None
                entry["repeats_equal"] = True
                for _ in range(repeats):
                    model = make(CUDA)
                    model.partial_fit(small) if name == "DDPvMFMeans" else model.fit(small)
                    bytes_now = model_bytes(model)
                    first = first or bytes_now
                    entry["repeats_equal"] &= bytes_now == first
            found[f"{name}, {case}"] = entry
            print("fits", name, case, entry)
    return found


# Real rows: a file below the folder of `--data`, and the array in it.
REAL = {
    "sentences, 384 columns": ("sent_banking77/embeddings.npz", "embeddings"),
    "words, 20 columns": ("wordvec_glove/glove_pca20.npz", "vectors"),
    "words, 100 columns": ("wordvec_glove/glove_100.npz", "vectors"),
    "voices, 256 columns": ("voice_librispeech/train_clean.npz", "window_embeddings"),
    "faces, 128 columns": ("face_lfw/embeddings.npz", "embeddings"),
    "normals of rooms, 3 columns": ("nyu2/normals.npz", "normals"),
}


def real_part(scale):
    """Real rows: labels held to brute force, fits to the CPU's bytes."""
    found = {"rows": 0, "differences": 0, "sets": {}}
    for name, (file, key) in REAL.items():
        path = Path(DATA) / file
        if not path.exists():
            found["sets"][name] = "not here"
            continue
        with np.load(path) as archive:
            host = np.ascontiguousarray(archive[key].reshape(-1, archive[key].shape[-1]).astype(np.float32))
        host = host[np.linalg.norm(host, axis=1) > 0.5]
        rows = torch.from_numpy(
            host / np.linalg.norm(host.astype(np.float64), axis=1, keepdims=True).astype(np.float32)
        )
        rows = rows.to(CUDA)
        wrong, listed, repeats = 0, 0, max(1, round(8 * scale))
        for seed in range(repeats):
            rule = AffineRule.cosines(directions(rows, (5, 40, 200, 1000)[seed % 4], seed))
            here, in_doubt, _ = differences(rows, rule)
            wrong, listed = wrong + here, listed + in_doubt
        files = []
        for device in ("cpu", CUDA):
            model = armillary.SphericalKMeans(20, random_state=0, n_init=1, max_iter=20, device=device).fit(host)
            files.append(model_bytes(model))
        found["rows"] += repeats * len(rows)
        found["differences"] += wrong
        found["sets"][name] = {
            "rows": len(rows), "decisions": repeats * len(rows), "differences": wrong, "in_doubt": listed,
            "SphericalKMeans has the bytes of the CPU": files[0] == files[1],
        }  # fmt: skip
        print("real", name, found["sets"][name])
    return found


# -------------------------------------------------------------------------------------------------------- times


def entry(ms, floor, peers=None, reach=None, **more):
    """A time with its floor."""
    return {"ms": round(ms, 4), "floor_ms": round(floor, 4), "ratio": round(ms / floor, 2), "reach_ms": reach,
            "peers_ms": {name: round(value, 3) for name, value in (peers or {}).items()}, **more}  # fmt: skip


def wide_times(n, d, k, speeds, reach, peers=True, dtype=torch.float32):
    """Exact labels, sums and movers on the device; the rule is prepared once."""
    found = {}
    rows = unit(n, d, 7, k, 0.9, dtype)
    rule = AffineRule.cosines(directions(rows, k, 1))
    with opened(rows) as passes:
        chooser, points = passes.chooser, passes.points
        labels = passes.labels()
        for _ in range(3):  # as in the middle of a fit
            rule = AffineRule.cosines(passes.label(rule, labels).sums.directions(otherwise=rule.directions))
        given = start.DeviceRule.of(rule)
        chooser.label(given, labels.values, (0, n))
        shadow_bytes = points.shadow[0].numel() * 2
        flops = 2 * n * d * k / speeds["fp16_per_s"] * 1e3
        reading = shadow_bytes / speeds["bytes_per_s"] * 1e3
        floor = max(flops, reading)
        counted = chooser._counted()
        ms = median_ms(lambda: chooser.label(given, labels.values, (0, n)))
        span = (0, n)

        def alone():
            points.scratch.counters.zero_()
            chooser._filter(given, span)

        only = median_ms(alone)
        more = {"filter_ms": round(only, 4), "in_doubt": counted.n_listed, "pairs": counted.n_pairs}
        found["labels"] = entry(ms, floor, reach=reach.get("labels"), **more)
        values = labels.values
        sums_floor = rows.numel() * rows.element_size() / speeds["bytes_per_s"] * 1e3
        sums_ms = median_ms(lambda: passes.device_sums(values, k))
        found["sums"] = entry(sums_ms, sums_floor)

        def iteration():
            chooser.label(given, values, span, after=lambda: passes.device_sums(values, k))

        peer = {}
        if peers:
            half, centers = rows.to(torch.bfloat16), torch.from_numpy(rule.directions).to(rows)

            def torch_bf16():
                best = (half @ centers.to(torch.bfloat16).T).argmax(dim=1)
                return torch.zeros_like(centers).index_add_(0, best, rows)

            def torch_tf32():
                best = torch.empty(n, dtype=torch.int64, device=CUDA)
                for first in range(0, n, 1 << 18):
                    best[first : first + (1 << 18)] = (rows[first : first + (1 << 18)] @ centers.T).argmax(dim=1)
                return torch.zeros_like(centers).index_add_(0, best, rows)

            if n * k * 2 < 40e9:
                peer["torch bf16, whole step, not exact"] = median_ms(torch_bf16, n=5, warm=1)
            torch.backends.cuda.matmul.allow_tf32 = True
            peer["torch tf32, whole step, not exact"] = median_ms(torch_tf32, n=5, warm=1)
            torch.backends.cuda.matmul.allow_tf32 = False
            del half
        found["iteration"] = entry(median_ms(iteration), floor + sums_floor, peer, reach.get("iteration"))
        # one row in a hundred has another label before the pass
        sums = passes.device_sums(values, k)
        moving = torch.arange(0, n, 100, device=CUDA)
        scratch = points.scratch

        def add():
            passes.add_moved(values, (scratch.moved, scratch.befores, scratch.counters[4:5]), sums)

        def few():
            values[moving] = (values[moving] + 1) % k
            chooser.label(given, values, span, is_listed=True, after=add)

        found["iteration, 1 % movers"] = entry(median_ms(few), floor + 0.02 * sums_floor, reach=reach.get("movers"))
        found["a step of the model, from rule on the host to sums on the host"] = round(
            wall_ms(lambda: passes.label(rule, labels)), 3
        )
    return found


def wall_ms(task, n=9):
    """The median time of a task by the clock on the wall, what the host does included."""
    task()
    times = []
    for _ in range(n):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        task()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times)


def soft_times(n, d, k, speeds, reach):
    """Softmax and sums of shares."""
    rows = unit(n, d, 7, k, 0.9)
    rule = AffineRule(30.0 * directions(rows, k, 1), np.zeros(k))
    with opened(rows) as passes:
        ms = wall_ms(lambda: passes.share(rule), 5)
        centers = torch.from_numpy(rule.directions).to(rows)

        def peer():
            totals = torch.zeros((k, d), device=CUDA)
            for first in range(0, n, 1 << 18):
                part = rows[first : first + (1 << 18)]
                totals += torch.softmax(part @ centers.T, dim=1).T @ part
            return totals

        torch.backends.cuda.matmul.allow_tf32 = True
        peers = {"torch tf32": median_ms(peer, n=5, warm=1)}
        torch.backends.cuda.matmul.allow_tf32 = False
        peers["torch float32"] = median_ms(peer, n=3, warm=1)
        small = rows[:20_000].clone()
        with opened(small) as few:
            found = few.share(rule)
        wanted = torch.softmax(small.double() @ centers.double().T, dim=1)
        error = float((torch.from_numpy(found.sums.resultants).to(CUDA) - wanted.T @ small.double()).abs().max())
        more = {"error_of_a_sum_per_row": error / len(small)}
        return {"soft pass": entry(ms, 3 * 2 * n * d * k / speeds["fp16_per_s"] * 1e3, peers, reach, **more)}


def narrow_times(speeds):
    """Rows of surface normals."""
    found = {}
    rows = unit(300_000, 3, 3, 8, 0.3)
    host = rows.cpu().numpy()
    rule = AffineRule.cosines(directions(rows, 10, 1))
    with opened(rows) as passes:
        given, labels = start.DeviceRule.of(rule), passes.labels()
        span = (0, len(rows))
        floor = rows.numel() * 4 / speeds["bytes_per_s"] * 1e3
        found["labels 300k x 3, K=10"] = entry(
            median_ms(lambda: passes.chooser.label(given, labels.values, span)), floor
        )
        found["sums"] = entry(median_ms(lambda: passes.device_sums(labels.values, 10)), floor)
        found["a pass from rule to sums on the host"] = round(wall_ms(lambda: passes.label(rule, labels)), 3)
    for name, given in (("on the device", rows), ("from the host", host)):
        model = armillary.DDPvMFMeans(max_angle=0.9, device=CUDA)
        model.partial_fit(given)
        step = partial(model.partial_fit, given)
        found[f"DDP frame 300k x 3, {name}, whole partial_fit"] = round(wall_ms(step, 5), 3)
    return found


def mixture_times(n=300_000, k=30, reach=4.5):
    """A sweep of a chain of tangent Gaussians from k clusters on, its splits and merges included, and its parts."""
    from armillary.distributions.tangent_component import TangentComponent
    from armillary.draws import Stream
    from armillary.fitting.dirichlet_process import rough_clusters, score_rule
    from armillary.models.dirichlet_process._chains import Setting, SplitMergeChain

    rows = unit(n, 3, 3, k, 0.1)
    component, generator = TangentComponent(3, 0.1, 5.0), np.random.default_rng(0)
    with opened(rows) as passes:
        clusters = rough_clusters(passes, k, generator)
        pivots, _ = component.draw(clusters.sets(), generator)
        chain = SplitMergeChain(Setting(component, passes, Stream(0)), clusters, pivots, 1.0)
        ms = wall_ms(chain.step, 9)
        laws = component.renew(chain.pivots, clusters.sets(), generator)[1]
        rule = score_rule(component, laws, np.zeros(len(clusters)))
        keys, labels, sets = ((1, 2), (3, 4)), passes.labels_from(clusters.labels.to_host()), clusters.sets()
        return {
            f"DirichletProcessMixture sweep 300k x 3, K={k}": {"ms": round(ms, 3), "reach_ms": reach},
            "K after the sweeps": len(clusters),
            "draw of all labels": round(wall_ms(lambda: passes.draw(rule, labels, keys[0])), 3),
            "anchors": round(wall_ms(lambda: passes.anchors(labels, keys[1], len(clusters))), 3),
            "rows by label": round(wall_ms(lambda: passes.partition(labels.copy())), 3),
            "tangent sums of all clusters": round(
                wall_ms(lambda: sets.tangent_limbs(laws.mean, with_scatter=True, with_curvature=True)), 3
            ),
        }


def memory_part(scale):
    """What lies beside the rows."""
    found = {}
    torch.cuda.empty_cache()
    rows = unit(1_000_000, 384, 1, 100)
    rule = AffineRule.cosines(directions(rows, 1000, 0))
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    with opened(rows) as passes:
        labels = passes.labels()
        passes.label(rule, labels)
        passes.label(rule, labels)
        found["bytes of rows"] = rows.numel() * 4
        found["more at the peak, of the rows"] = round(
            (torch.cuda.max_memory_allocated() - before) / (rows.numel() * 4), 3
        )
        found["more that stays, of the rows"] = round((torch.cuda.memory_allocated() - before) / (rows.numel() * 4), 3)
    del passes, labels
    found["left afterwards, bytes"] = torch.cuda.memory_allocated() - before
    if scale >= 1:
        wide = unit(9_000_000, 256, 1, 100)  # more than 2^31 elements
        rule = AffineRule.cosines(directions(wide, 300, 0))
        wrong, _, _ = differences(wide, rule)
        found["rows beyond 2^31 elements: differences"] = wrong
    return found


def times_part(scale):
    """Times of all sizes."""
    speeds = ceilings()
    print("ceilings", speeds)
    found = {"ceilings": speeds}
    for name, make in {
        "1M x 384, K=1000": lambda: wide_times(
            1_000_000, 384, 1000, speeds, {"labels": 1.5, "iteration": 2.0, "movers": 1.6}
        ),
        "100k x 768, K=100": lambda: wide_times(100_000, 768, 100, speeds, {"labels": 0.15}),
        "10M x 128, K=4096": lambda: wide_times(10_000_000, 128, 4096, speeds, {"labels": 25.0}, peers=scale >= 1),
        "soft 1M x 384, K=1000": lambda: soft_times(1_000_000, 384, 1000, speeds, 4.5),
        "narrow": lambda: narrow_times(speeds),
        "mixture": mixture_times,
    }.items():
        found[name] = make()
        print("times", name, json.dumps(found[name], indent=1))
        torch.cuda.empty_cache()
    return found


# ----------------------------------------------------------------------- rows on the host, and rows of mostly zeros


@contextmanager
def no_room():
    """A card that has room for blocks alone."""
    known = cuda_sources.free_bytes
    cuda_sources.free_bytes = lambda: 0
    try:
        yield
    finally:
        cuda_sources.free_bytes = known


def seconds(task):
    """By the clock on the wall."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    task()
    torch.cuda.synchronize()
    return time.perf_counter() - begin


def copied(host, is_staged):
    """Seconds of bringing all rows over: from page-locked memory alone, or by way of it."""
    belt = cuda_stream.Belt("bench")
    points = cuda_stream.StreamedPoints(cuda_sources.Source(host), None, "bench")
    spans = points.spans
    rows = spans[0][1] - spans[0][0]
    pinned = torch.empty((rows, host.shape[1]), dtype=torch.float16, pin_memory=True)
    there = torch.empty_like(pinned, device=CUDA)
    try:
        if not is_staged:
            return seconds(lambda: [there.copy_(pinned, non_blocking=True) for _ in spans])
        for span in spans[:2]:  # buffers are made by the first
            belt.raw(points.source, span, span)
        following = [*spans[1:], spans[-1]]
        return seconds(lambda: [belt.raw(points.source, *pair) for pair in zip(spans, following, strict=True)])
    finally:
        belt.close()


def stream_part(scale):
    """100M x 128 float16 from host memory, K=4096: one step beside copying alone and computing alone."""
    d, k = 128, 4096
    pages = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    n = int(min(100_000_000 * min(1.0, scale), 0.4 * pages / (2 * d)))
    host = np.empty((n, d), np.float16)
    step = 1 << 22
    for first in range(0, n, step):
        m = min(step, n - first)
        host[first : first + m] = unit(m, d, 7 + first, k, 0.9, torch.float16).cpu().numpy()
    n_here = min(n, 10_000_000)
    rule = AffineRule.cosines(directions(torch.from_numpy(host[:n_here]).to(CUDA), k, 1))
    found = {"rows": n, "bytes": host.nbytes}
    found["copying from page-locked memory, s"] = round(copied(host, False), 4)
    found["copying by way of page-locked memory, s"] = round(copied(host, True), 4)
    with opened(host[:n_here]) as passes:
        labels = passes.labels()
        passes.label(rule, labels)
        computing = statistics.median(seconds(lambda: passes.label(rule, labels)) for _ in range(5))
        wanted = labels.to_host()
    found["computing, rows on the device, s (of the first rows, scaled)"] = round(computing * n / n_here, 4)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    with no_room(), opened(host) as passes:
        labels = passes.labels()
        passes.label(rule, labels)
        times = [seconds(lambda: passes.label(rule, labels)) for _ in range(3)]
        found["blocks"] = len(passes.parts)
        found["labels unlike those of rows on the device"] = int((labels.to_host()[:n_here] != wanted).sum())
    found["one step, s"] = round(statistics.median(times), 4)
    larger = max(found["copying from page-locked memory, s"], computing * n / n_here)
    found["of the larger of copying and computing"] = round(found["one step, s"] / larger, 3)
    found["memory on the device at the peak, GiB"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
    print("stream", json.dumps(found, indent=1))
    return found


def documents(n, d, width, seed):
    """Rows of words, some of which most rows have: CSR, lengths and words by heavy laws."""
    rng = np.random.default_rng(seed)
    lengths = np.minimum(rng.gamma(1.2, width / 1.2, n).astype(np.int64) + 5, d // 4)
    words = np.floor(d ** rng.random(2 * int(lengths.sum()))).astype(np.int64) - 1
    numbers = np.repeat(np.arange(n), 2 * lengths)
    known = np.unique(numbers * d + words)
    values = rng.gamma(1.0, size=len(known)).astype(np.float32)
    return sp.csr_array((values, (known // d, known % d)), shape=(n, d))


def sparse_part(scale):
    """Documents as CSR: labels, sums and shares beside torch.sparse and the CPU."""
    speeds, n, d, k = ceilings(), 18_744, 53_975, 20
    rows = documents(n, d, 90, 3)
    rng = np.random.default_rng(1)
    picked = rows[rng.choice(n, k, replace=False)].toarray().astype(np.float64) + 1e-3 * rng.random((k, d))
    rule = AffineRule.cosines(picked / np.linalg.norm(picked, axis=1, keepdims=True))
    found = {"rows": n, "columns": d, "entries": int(rows.nnz), "clusters": k}
    with opened(rows) as passes:
        given, labels, matrix = start.DeviceRule.of(rule), passes.labels(), passes.points.matrix
        entries = len(matrix.data) * 8
        floor = (entries + given.turned.numel() * 8) / speeds["bytes_per_s"] * 1e3
        peer = torch.sparse_csr_tensor(matrix.pointers, matrix.indices.long(), matrix.data, size=(n, d))
        turned, wide = given.turned.float(), peer.double()
        peers = {
            "torch.sparse float32, not exact": median_ms(lambda: (peer @ turned).argmax(dim=1)),
            "torch.sparse float64, another order": median_ms(lambda: (wide @ given.turned).argmax(dim=1)),
        }
        ms = median_ms(lambda: passes.chooser.label(given, labels.values, (0, n)))
        found["labels"] = entry(ms, floor, peers)
        sums_floor = (entries + 2 * given.turned.numel() * 8) / speeds["bytes_per_s"] * 1e3
        found["sums"] = entry(median_ms(lambda: passes.device_sums(labels.values, k)), sums_floor)
        soft = AffineRule(200.0 * rule.directions, np.zeros(k))
        found["a soft step, rule to sums on the host, ms"] = round(wall_ms(lambda: passes.share(soft)), 3)
        found["a step of the model, from rule on the host to sums on the host"] = round(
            wall_ms(lambda: passes.label(rule, labels)), 3
        )
    found["labels unlike the CPU's"] = unlike_the_cpu(rows, rule)
    print("sparse", json.dumps(found, indent=1))
    return found


PARTS = {"real": real_part, "labels": labels_part, "fits": fits_part, "times": times_part, "memory": memory_part} | {
    "stream": stream_part,
    "sparse": sparse_part,
}


def main():
    """Run the parts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", default="benchmarks/results/gpu.json")
    parser.add_argument("--part", nargs="*", default=list(PARTS))
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of rows that labels are held to")
    parser.add_argument("--data", default=DATA, help="the folder of real data; what is not there is left out")
    given = parser.parse_args()
    globals()["DATA"] = given.data
    warnings.simplefilter("ignore")
    path = Path(given.output)
    found = json.loads(path.read_text()) if path.exists() else {}
    found |= {"command": "python -m benchmarks.gpu", "machine": machine()}
    for name in given.part:
        begin = time.perf_counter()
        try:
            found[name] = PARTS[name](given.scale)
        except Exception as error:
            if os.environ.get("ARMILLARY_STOP"):
                raise
            import traceback

            traceback.print_exc()
            found[name] = {"failed": f"{type(error).__name__}: {str(error)[:300]}"}
        print(f"== {name}: {time.perf_counter() - begin:.0f} s")
        path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
