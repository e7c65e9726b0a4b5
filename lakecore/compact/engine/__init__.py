"""This package has what every rewriting run shares; it knows no kind of table and no kind of rewriting.

The life of a pick: a kind plans it from one snapshot (`work.WorkPick`); `licence` refuses picks that claim to
drop more than the rules allow; `driver` runs the units on an executor and proves their results (`outcome`);
`commit_loop` publishes all that still fits the table, and `run_commits` numbers the commits of a run;
`commit` says what that is for picks (`claims` compares the commit with the proofs, `deletion_vectors` writes
the index files that belong to it); `cleanup` removes every file that no snapshot refers to. `attempt_files`
names files so that those of a killed attempt can be found, and says what an earlier run of the same name had
committed.

Rule of the uncertain commit (`commit_loop.CommitGuard`): when the outcome of a commit is not known, no file
of it is deleted.
"""
