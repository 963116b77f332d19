"""Jobs from Python: data frames in; data frames, model parts, figures and reports out."""
