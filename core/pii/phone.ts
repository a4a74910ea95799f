// Telephone numbers: international ones (ITU-T E.164), and those of North America as they are written there. Other
// national numbers look like any number.
import { type Detector, patternDetector } from './kinds.js'

export const phoneDetectors: readonly Detector[] = [
  // No country code begins with 0, unlike the offset of a time zone.
  patternDetector(
    'phone',
    /(?<![\p{L}\p{N}])\+[1-9](?:(?:[ \u00a0]{1,2}|[ \u00a0-]?\(|\)[ \u00a0-]?|[./\u2010-\u2013-])?\d){6,14}(?!\d)/gu,
  ),
  patternDetector(
    'phone',
    /(?<![\w-]|\d\.)(?:1[ .\u00a0-])?(?:\(\d{3}\)[ \u00a0-]?|\d{3}[ .\u00a0\u2010-\u2013-])\d{3}[ .\u00a0\u2010-\u2013-]\d{4}(?=x\d|(?!-?\w))/g,
  ),
]
