"""What Saxe, McClelland and Ganguli state on semantic development, by topic."""
