"""Operators on DTensors, two gloo processes: with a rule no communication, without one replication, the same numbers."""

import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

WORKER = """
import sys, torch, torch.distributed as dist
rank, store = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh
from torch.distributed.tensor.debug import CommDebugMode
from declared import outer, scale
from test_op_arguments import add_in_place, product, weighted_sum
mesh = init_device_mesh("cpu", (2,))
torch.manual_seed(0)
x, y = torch.rand(6), torch.rand(4)
dx = distribute_tensor(x, mesh, [Shard(0)]).requires_grad_()
dy = distribute_tensor(y, mesh, [Replicate()])
found = outer(dx, dy)
assert torch.allclose(found.full_tensor(), torch.outer(x, y)), "replicated"
found.sum().backward()
assert torch.allclose(dx.grad.full_tensor(), y.sum().expand(6)), "gradient"
scale.def_sharding(lambda x, *rest: [([Shard(0)], [Shard(0), *(None for _ in rest)])])
with CommDebugMode() as comm:
    found = scale(dx.detach(), 3.0)
assert comm.get_total_counts() == 0 and found.placements == (Shard(0),)
assert torch.allclose(found.full_tensor(), 3 * x), "sharded"
outer.def_sharding("i, j -> i j")
with CommDebugMode() as comm:
    found = outer(dx.detach(), dy)
assert comm.get_total_counts() == 0 and found.placements == (Shard(0),), "by names"
assert torch.allclose(found.full_tensor(), torch.outer(x, y)), "by names"
placed = lambda t, *places: distribute_tensor(t, mesh, list(places))
total = weighted_sum([dx, placed(x, Replicate())], (1.0, 2.0), mode="mean")
assert torch.allclose(total.full_tensor(), 1.5 * x), "a list"
product(dx, y=placed(x, Shard(0))).sum().backward()
assert torch.allclose(dx.grad.full_tensor() - y.sum(), x), "by keyword"
written = placed(torch.zeros(6), Replicate())
add_in_place(written, placed(x, Shard(0)))
assert torch.equal(written.full_tensor(), x), "in place"
written = placed(torch.zeros(6), Shard(0))
try:
    add_in_place(written, dx.detach())
    raise SystemExit("written in vain")
except Exception as error:
    assert "it writes 'y', a DTensor placed (Shard(dim=0),), and no rule" in str(error), error
add_in_place.def_sharding("i, i ->")
with CommDebugMode() as comm:
    add_in_place(written, dx.detach())
assert comm.get_total_counts() == 0 and torch.equal(written.full_tensor(), x), "in place, by names"
dist.destroy_process_group()
print("fine")
"""


@pytest.mark.slow
@pytest.mark.torch
def test_two_processes(tmp_path):
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        pytest.skip("torch was built without gloo")
    here = Path(__file__).parent
    command = [sys.executable, "-c", WORKER]
    store = str(tmp_path / "store")
    runs = [
        subprocess.Popen(
            [*command, str(rank), store], cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for rank in (0, 1)
    ]
    for run in runs:
        out, err = run.communicate(timeout=300)
        assert out.strip() == "fine", err


@pytest.mark.torch
def test_registration_imports_nothing_that_is_half_imported():
    code = "import torch, declared, torch.distributed._tools.mem_tracker, torch.distributed.fsdp; print('fine')"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parent, check=False
    )
    assert run.stdout.strip() == "fine", run.stderr[-2000:]
