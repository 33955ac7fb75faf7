"""The command line. `app` lists the commands; `options` and `console` are what they share."""
