# The tour on the command line: cluster, look, predict, follow a stream.
#
#     sh examples/tour.sh
#
# docs/guide/command_line.md shows these commands and what they print; tests/unit/test_readme.py holds them together.
# Run it in an empty folder: it leaves vectors.npy, new.npy, new.csv, ids.csv, live.state and the folder clusters.
set -e
python -c "
import numpy as np
from armillary.datasets import make_vmf_mixture
X, _, _ = make_vmf_mixture(2_500, 64, 5, concentration=200.0, random_state=0)
np.save('vectors.npy', X[:2_000])
np.save('new.npy', X[2_000:])
"
armillary cluster vectors.npy -o clusters
armillary predict clusters new.npy -o new.csv
armillary stream new.npy --model ddp --max-angle 60 --batch 250 --state live.state -o ids.csv
