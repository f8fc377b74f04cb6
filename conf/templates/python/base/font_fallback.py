

# Added by the template: every text ends its search for a glyph in the Chinese font,
# whatever family a script, a style or seaborn's theme asks for. A generic family
# such as sans-serif names one font only, so no setting can do this.
_TEMPLATE_FALLBACK = "/usr/share/fonts/truetype/wqy/wqy-microhei.ttc"


def _find_fonts_with_fallback(self, prop, *args, _find=FontManager._find_fonts_by_props, **kwargs):
    paths = _find(self, prop, *args, **kwargs)
    return paths if _TEMPLATE_FALLBACK in paths else [*paths, _TEMPLATE_FALLBACK]


FontManager._find_fonts_by_props = _find_fonts_with_fallback
