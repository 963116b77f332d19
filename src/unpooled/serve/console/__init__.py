"""The browser's side of a service: pages rendered here, and nothing that needs a script to be understood."""
