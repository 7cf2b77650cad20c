INTRODUCTION = AGAIN_TEXT = SOURCES = ""
ABOUT = defaultdict = {}
GROUPS = {}
