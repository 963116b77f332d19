"""What the pages of reports are drawn with: charts, measures, counts in words, and templates."""
