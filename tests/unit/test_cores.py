"""Cores: no more than a container lets a process use, and none counted twice."""

from __future__ import annotations

import os

import pytest

from armillary import cores
from armillary.cli import warming
from armillary.sources import memory
from armillary.workers import thread_count


def made(root, files):
    for name, text in files.items():
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return root


V2 = "proc/self/cgroup"
TOP = "sys/fs/cgroup"
CASES = {
    "no files": ({}, None),
    "v2, no limit": ({V2: "0::/user\n", f"{TOP}/user/cpu.max": "max 100000\n"}, None),
    "v2, two cores": ({V2: "0::/user\n", f"{TOP}/user/cpu.max": "200000 100000\n"}, 2.0),
    "v2, in a container": ({V2: "0::/\n", f"{TOP}/cpu.max": "150000 100000\n"}, 1.5),
    "v2, a group above has less": (
        {V2: "0::/pod/job\n", f"{TOP}/pod/cpu.max": "100000 100000\n", f"{TOP}/pod/job/cpu.max": "400000 100000\n"},
        1.0,
    ),
    "v2, named as outside": ({V2: "0::/../other\n", f"{TOP}/cpu.max": "300000 100000\n"}, 3.0),
    "v2 beside v1": ({V2: "0::/job\n", f"{TOP}/unified/job/cpu.max": "50000 100000\n"}, 0.5),
    "v1": (
        {
            V2: "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n",
            f"{TOP}/cpu,cpuacct/docker/abc/cpu.cfs_quota_us": "250000\n",
            f"{TOP}/cpu,cpuacct/docker/abc/cpu.cfs_period_us": "100000\n",
        },
        2.5,
    ),
    "v1, in a container": (
        {
            V2: "3:cpuacct,cpu:/docker/abc\n",
            f"{TOP}/cpu/cpu.cfs_quota_us": "50000\n",
            f"{TOP}/cpu/cpu.cfs_period_us": "50000\n",
        },
        1.0,
    ),
    "v1, no limit": (
        {V2: "3:cpu:/\n", f"{TOP}/cpu/cpu.cfs_quota_us": "-1\n", f"{TOP}/cpu/cpu.cfs_period_us": "100000\n"},
        None,
    ),
    "nonsense": ({V2: "what\n1:cpu\n0::relative\n0::/a\n", f"{TOP}/a/cpu.max": "many 0\n"}, None),
    "v2, nobody tells the group": ({f"{TOP}/cpu.max": "200000 100000\n"}, 2.0),
    "v2, a group that is gone": ({V2: "0::/job (deleted)\n", f"{TOP}/cpu.max": "100000 100000\n"}, 1.0),
    "v2, one word": ({V2: "0::/a\n", f"{TOP}/a/cpu.max": "max\n"}, None),
    "v1, nobody tells the group": (
        {f"{TOP}/cpu/cpu.cfs_quota_us": "150000\n", f"{TOP}/cpu/cpu.cfs_period_us": "100000\n"},
        1.5,
    ),
    "v1, a group above has less": (
        {
            V2: "3:cpu,cpuacct:/pod/job\n",
            f"{TOP}/cpu,cpuacct/pod/cpu.cfs_quota_us": "20000\n",
            f"{TOP}/cpu,cpuacct/pod/cpu.cfs_period_us": "40000\n",
            f"{TOP}/cpu,cpuacct/pod/job/cpu.cfs_quota_us": "-1\n",
            f"{TOP}/cpu,cpuacct/pod/job/cpu.cfs_period_us": "100000\n",
        },
        0.5,
    ),
    "v1, no file of the period": ({V2: "3:cpu:/\n", f"{TOP}/cpu/cpu.cfs_quota_us": "100000\n"}, None),
    "no period": ({V2: "0::/a\n", f"{TOP}/a/cpu.max": "1000 0\n"}, None),
}


@pytest.mark.parametrize("case", CASES)
def test_quota_of_control_groups(tmp_path, case):
    files, expected = CASES[case]
    assert cores.cpu_quota(made(tmp_path, files)) == expected


def test_hyperthreads_of_a_core_count_once(tmp_path):
    files = {
        f"sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list": f"{number % 4},{number % 4 + 4}\n"
        for number in range(8)
    }
    root = made(tmp_path, files)
    assert cores.physical_cores(frozenset(range(8)), root) == 4
    assert cores.physical_cores(frozenset({0, 4}), root) == 1
    assert cores.physical_cores(frozenset({0, 1, 4}), root) == 2
    assert cores.physical_cores(frozenset({0, 90, 91}), root) == 3  # nothing is known of two of them


@pytest.mark.parametrize(("quota", "expected"), [(None, 64), (2.0, 2), (1.2, 2), (0.3, 1), (100.0, 64)])
def test_default_threads_obey_the_container(monkeypatch, quota, expected):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(1000, 1064)), raising=False)
    monkeypatch.setattr(cores, "cpu_quota", lambda: quota)
    assert thread_count(None, "Model") == expected
    assert thread_count(64, "Model") == 64  # what is asked for is taken


@pytest.mark.parametrize(
    ("n_cores", "left", "expected"), [(16, None, 8), (2, 64 << 30, 2), (16, 1 << 30, 2), (4, 0, 0)]
)
def test_warmup_starts_no_more_compilers_than_have_a_core_and_memory(n_cores, left, expected, monkeypatch):
    monkeypatch.setattr(warming, "usable_cores", lambda: n_cores)
    monkeypatch.setattr(warming, "memory_left", lambda: left)
    assert warming._processes_with_room() == expected


def test_here_there_is_at_least_one():
    assert cores.usable_cores() >= 1


ROOMS = {
    "no files": ({}, None),
    "v2, no limit": ({V2: "0::/user\n", f"{TOP}/user/memory.max": "max\n", f"{TOP}/user/memory.current": "5\n"}, None),
    "v2, with files in the cache": (
        {
            V2: "0::/\n",
            f"{TOP}/memory.max": "1000\n",
            f"{TOP}/memory.current": "700\n",
            f"{TOP}/memory.stat": "anon 500\ninactive_file 150\nactive_file 50\n",
        },
        450,
    ),
    "v2, a group above has less": (
        {
            V2: "0::/pod/job\n",
            f"{TOP}/pod/memory.max": "1000\n",
            f"{TOP}/pod/memory.current": "900\n",
            f"{TOP}/pod/job/memory.max": "800\n",
            f"{TOP}/pod/job/memory.current": "100\n",
        },
        100,
    ),
    "v2, nobody tells the group": ({f"{TOP}/memory.max": "10\n", f"{TOP}/memory.current": "4\n"}, 6),
    "v2, beyond the limit": ({V2: "0::/\n", f"{TOP}/memory.max": "10\n", f"{TOP}/memory.current": "12\n"}, 0),
    "v1": (
        {
            V2: "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n",
            f"{TOP}/memory/memory.limit_in_bytes": "4000\n",
            f"{TOP}/memory/memory.usage_in_bytes": "1000\n",
            f"{TOP}/memory/memory.stat": "cache 9\ntotal_inactive_file 300\n",
        },
        3300,
    ),
}


@pytest.mark.parametrize(("files", "room"), ROOMS.values(), ids=ROOMS)
def test_memory_that_a_container_leaves(files, room, tmp_path):
    assert cores.memory_left(made(tmp_path, files)) == room


def test_free_memory_is_what_both_leave(monkeypatch):
    monkeypatch.setattr(memory, "memory_left", lambda: 5000)
    assert memory.free_memory() == 5000
    monkeypatch.setattr(memory, "memory_left", lambda: 1 << 60)
    assert 5000 < memory.free_memory() < 1 << 50
