"""Where does it fit into scikit-learn? A step of a pipeline, a clusterer, a transformer, a grid search.

    python examples/pipeline.py

Similarities to 20 directions, learned without labels, help a classifier that has only 20 labelled rows; and
scikit-learn's search finds how many directions help most.

It prints:

    20 labels, raw columns: 84.4% correct
    20 labels, similarities to 20 directions: 90.3%
    grid search: 20 directions, 95.6%
    columns: ['sphericalkmeans0', 'sphericalkmeans1', 'sphericalkmeans2'] ...
"""

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from armillary import SphericalKMeans
from armillary.datasets import make_vmf_mixture


def main() -> None:
    """A few labels and many rows."""
    rows, groups, _ = make_vmf_mixture(3_000, 60, 20, concentration=100.0, random_state=1)
    classes = groups % 4  # each class is five groups
    labelled = np.concatenate([np.flatnonzero(groups == group)[:1] for group in range(20)])

    plain = LogisticRegression(max_iter=2_000).fit(rows[labelled], classes[labelled])
    print(f"{len(labelled)} labels, raw columns: {plain.score(rows, classes):.1%} correct")

    directions = SphericalKMeans(20, n_init=5, random_state=0).fit(rows)  # needs no labels
    features = directions.transform(rows)
    helped = LogisticRegression(C=100.0, max_iter=2_000).fit(features[labelled], classes[labelled])
    print(
        f"{len(labelled)} labels, similarities to {features.shape[1]} directions: {helped.score(features, classes):.1%}"
    )

    pipeline = make_pipeline(SphericalKMeans(random_state=0), LogisticRegression(C=100.0, max_iter=2_000))
    search = GridSearchCV(pipeline, {"sphericalkmeans__n_clusters": [2, 5, 10, 20]}, cv=3).fit(rows, classes)
    print(f"grid search: {search.best_params_['sphericalkmeans__n_clusters']} directions, {search.best_score_:.1%}")
    print("columns:", search.best_estimator_[0].get_feature_names_out()[:3].tolist(), "...")


if __name__ == "__main__":
    main()
