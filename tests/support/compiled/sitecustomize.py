"""Spark's Python processes take its modules from where they are installed, which saves each of them a second.

Spark names a zip of the same modules first. What is in a zip is compiled anew by every process, and a driver
of these tests has half a dozen of them.
"""

import sys

sys.path[:] = [path for path in sys.path if not path.endswith("pyspark.zip")]
