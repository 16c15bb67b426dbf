"""What are these texts about? Sparse TF-IDF rows, and a number of topics that nobody knows.

    python examples/documents.py

Texts are made up from the words of five subjects. Rows stay sparse from the vectoriser to the model, and the largest
entries of a cluster's direction are its words.

It prints:

    1500 texts, 87 words, 5 clusters
     587 texts, 100% cooking: pan, garlic, simmer, sauce, salt
     359 texts, 100% astronomy: crater, planet, dust, moon, nebula
     235 texts, 100% football: pitch, tackle, goal, penalty, coach
     200 texts, 100% gardening: compost, bulb, lawn, watering, shade
     119 texts, 100% music: melody, choir, encore, harmony, violin
"""

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from armillary import choose_model

SUBJECTS = {
    "cooking": "pan butter onion garlic oven flour salt pepper simmer whisk dough roast sauce spoon recipe",
    "astronomy": "star planet comet telescope orbit galaxy moon eclipse nebula crater lens sky observatory dust",
    "football": "goal match striker keeper penalty league coach corner referee pitch header tackle fans derby",
    "gardening": "soil seed compost prune hedge rose bulb shade watering weeds lawn root spade blossom frost",
    "music": "chord violin tempo melody choir rhythm piano concert score tenor bass encore bow harmony",
}
COMMON = "the a and of with very then some again after before people time good day new"


def made_up_texts(n_texts: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """Texts of 20 words or so, half of them words of one subject; and the subjects."""
    generator = np.random.default_rng(seed)
    subjects = generator.choice(list(SUBJECTS), n_texts, p=[0.4, 0.25, 0.15, 0.12, 0.08])
    texts = []
    for subject in subjects:
        own = generator.choice(SUBJECTS[subject].split(), generator.integers(6, 14))
        texts.append(" ".join(generator.permutation([*own, *generator.choice(COMMON.split(), 10)])))
    return texts, subjects.tolist()


def main() -> None:
    """Vectorise, cluster, and say what each cluster is about."""
    texts, subjects = made_up_texts(1_500)
    vectoriser = TfidfVectorizer()
    rows = vectoriser.fit_transform(texts)
    model = choose_model(rows).model
    words = vectoriser.get_feature_names_out()
    print(f"{rows.shape[0]} texts, {rows.shape[1]} words, {model.n_clusters_} clusters")
    for cluster in np.argsort(-model.counts_):
        top = words[np.argsort(-model.cluster_centers_[cluster])[:5]]
        own = np.array(subjects)[model.labels_ == cluster]
        names, counts = np.unique(own, return_counts=True)
        print(f"{len(own):4} texts, {counts.max() / len(own):.0%} {names[counts.argmax()]}: {', '.join(top)}")


if __name__ == "__main__":
    main()
