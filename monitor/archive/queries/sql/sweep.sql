-- One row: each column of a statement as the float8 of all its rows in binary, one after the other, NaN for null.
SELECT {columns} FROM ({rows}) AS asked
