"""PDFium's functions that are called for every word or object of a page, bound to take plain addresses.

The wrapper's own bindings convert pointers at each call, which makes a page of 500 words cost half as much again.
"""

import ctypes
from collections.abc import Callable
from ctypes import c_int, c_ulong, c_void_p
from typing import Any

import pypdfium2.raw as pdfium

PdfiumCall = Callable[..., int]


def address_of(handle: Any) -> int:
    """The address that a handle of the wrapper points to; 0 for a null handle."""
    return ctypes.cast(handle, c_void_p).value or 0


def _bound(function: Any, *arguments: type, result: type = c_int) -> PdfiumCall:
    where = ctypes.cast(function, c_void_p).value
    assert where, "the library has the function"
    call: PdfiumCall = ctypes.CFUNCTYPE(result, *arguments)(where)
    return call


_HANDLE = c_void_p
_OUT = c_void_p
"""The address of a number that the function sets."""

count_rects = _bound(pdfium.FPDFText_CountRects, _HANDLE, c_int, c_int)
"""textpage, first character, number of characters → number of rectangles"""
get_rect = _bound(pdfium.FPDFText_GetRect, _HANDLE, c_int, _OUT, _OUT, _OUT, _OUT)
"""textpage, rectangle → left, top, right, bottom"""
get_char_box = _bound(pdfium.FPDFText_GetCharBox, _HANDLE, c_int, _OUT, _OUT, _OUT, _OUT)
"""textpage, character → left, right, bottom, top"""
get_loose_box = _bound(pdfium.FPDFText_GetLooseCharBox, _HANDLE, c_int, _OUT)
"""textpage, character → left, top, right, bottom as floats"""
get_unicode = _bound(pdfium.FPDFText_GetUnicode, _HANDLE, c_int)
text_object = _bound(pdfium.FPDFText_GetTextObject, _HANDLE, c_int, result=c_void_p)
"""textpage, character → object; None if there is none"""

count_objects = _bound(pdfium.FPDFPage_CountObjects, _HANDLE)
get_object = _bound(pdfium.FPDFPage_GetObject, _HANDLE, c_int, result=c_void_p)
count_form_objects = _bound(pdfium.FPDFFormObj_CountObjects, _HANDLE)
get_form_object = _bound(pdfium.FPDFFormObj_GetObject, _HANDLE, c_ulong, result=c_void_p)
get_type = _bound(pdfium.FPDFPageObj_GetType, _HANDLE)
get_bounds = _bound(pdfium.FPDFPageObj_GetBounds, _HANDLE, _OUT, _OUT, _OUT, _OUT)
"""object → left, bottom, right, top as floats, in the space of the form that holds it"""
get_matrix = _bound(pdfium.FPDFPageObj_GetMatrix, _HANDLE, _OUT)
"""object → six floats"""
get_fill = _bound(pdfium.FPDFPageObj_GetFillColor, _HANDLE, _OUT, _OUT, _OUT, _OUT)
"""object → red, green, blue, alpha"""
get_stroke = _bound(pdfium.FPDFPageObj_GetStrokeColor, _HANDLE, _OUT, _OUT, _OUT, _OUT)
get_draw_mode = _bound(pdfium.FPDFPath_GetDrawMode, _HANDLE, _OUT, _OUT)
"""path → fill mode (0: not filled), 1 if it is stroked"""
count_segments = _bound(pdfium.FPDFPath_CountSegments, _HANDLE)
get_segment = _bound(pdfium.FPDFPath_GetPathSegment, _HANDLE, c_int, result=c_void_p)
get_point = _bound(pdfium.FPDFPathSegment_GetPoint, _HANDLE, _OUT, _OUT)
get_render_mode = _bound(pdfium.FPDFTextObj_GetTextRenderMode, _HANDLE)
get_font = _bound(pdfium.FPDFTextObj_GetFont, _HANDLE, result=c_void_p)
has_transparency = _bound(pdfium.FPDFPageObj_HasTransparency, _HANDLE)
get_clip = _bound(pdfium.FPDFPageObj_GetClipPath, _HANDLE, result=c_void_p)
count_clips = _bound(pdfium.FPDFClipPath_CountPaths, _HANDLE)
count_clip_segments = _bound(pdfium.FPDFClipPath_CountPathSegments, _HANDLE, c_int)
get_clip_segment = _bound(pdfium.FPDFClipPath_GetPathSegment, _HANDLE, c_int, c_int, result=c_void_p)
count_marks = _bound(pdfium.FPDFPageObj_CountMarks, _HANDLE)
get_mark = _bound(pdfium.FPDFPageObj_GetMark, _HANDLE, c_ulong, result=c_void_p)
get_mark_name = _bound(pdfium.FPDFPageObjMark_GetName, _HANDLE, _OUT, c_ulong, _OUT)
"""mark, UTF-16 buffer, its size in bytes → bytes written"""
set_active = _bound(pdfium.FPDFPageObj_SetIsActive, _HANDLE, c_int)
