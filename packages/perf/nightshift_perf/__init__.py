"""How fast a training runs and why: traces, tuning, scaling, comparisons. Tools that stand alone and that steps use."""
