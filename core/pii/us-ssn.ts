// Social security numbers of the United States, and taxpayer numbers (ITIN), which have the same form. An area 000 or
// 666, a group 00 and a serial number 0000 are never given out.
import { patternDetector } from './kinds.js'

export const usSsnDetector = patternDetector(
  'us_ssn',
  /(?<!\d-?)(?:(?!000|666|9)\d{3}[-\u2010-\u2013](?!00)\d{2}|9\d{2}[-\u2010-\u2013](?:[5-8]\d|9[0-24-9]))[-\u2010-\u2013](?!0000)\d{4}(?!-?\d)/g,
)
