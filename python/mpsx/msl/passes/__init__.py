"""Passes that edit a Source on its way to C++. lowering.py runs them."""
