"""The suffixes of the files that readers take."""

CSV_SUFFIXES, PARQUET_SUFFIXES = (".csv", ".tsv"), (".parquet", ".pq")
TABLE_SUFFIXES = CSV_SUFFIXES + PARQUET_SUFFIXES
ARRAY_SUFFIX, ARFF_SUFFIX = ".npz", ".arff"
