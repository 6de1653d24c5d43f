"""Tables, plots and the page that show what runs measured, beside the paper's numbers."""
