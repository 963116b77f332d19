"""The learners and the search for look-alikes with scikit-learn's manners, every party a thread of this process.

They are for simulation and method research on data that is in one place. Rows are the same people in the same order at
all parties; where they have to be aligned first, by ids, `run.simulate` runs a whole job.
"""

from importlib.util import find_spec

if find_spec("sklearn") is None:
    raise ModuleNotFoundError("the estimators need scikit-learn: pip install 'unpooled[sklearn]'", name="sklearn")
