"""Sets from a scikit-learn pipeline.

`SetClassifier` wraps any classifier with `predict_proba`. It keeps part of the training rows aside to fit the rule, and
`predict_set` answers with a boolean matrix.
"""

from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from shortlist.metrics import coverage
from shortlist.sets import lac
from shortlist.sklearn import SetClassifier

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X[:, ::7], y, random_state=0)

estimator = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
model = SetClassifier(estimator, rule=lac(0.1)).fit(X_train, y_train)
sets = model.predict_set(X_test)

print(f"accuracy of the single answer {(model.predict(X_test) == y_test).mean():.3f}")
print(f"coverage of the sets {coverage(sets, y_test):.3f}, {sets.sum(axis=1).mean():.2f} labels on average")
