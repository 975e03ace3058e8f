"""python -m recert"""

from recert.cli import main

main()
