// The page of an evidence file: its data between the two parts of a page that is always the same. Anything else in the file
// is a change of it.

import { AuditError } from '../../format/errors.js'
import { type Evidence, evidenceText, readEvidence } from '../../format/evidence-data.js'
import { lineText } from '../../format/stored-record.js'
import { DATA_START, frameHash, pageFrame } from './page-frame.js'

/** A maker may allow more than the default. */
const MAX_PAGE_BYTES = 256 * 2 ** 20

/** @throws {AuditError} `bad_config` if the filter is not well-formed Unicode */
export function evidencePage(evidence: Evidence): string {
  const { before, after } = pageFrame()
  const text = evidenceText(evidence)
  if (text === undefined) throw new AuditError('bad_config', 'the filter has half of a surrogate pair')
  return before + text + after
}

export type ReadEvidence = { readonly evidence: Evidence } | { readonly reason: string }

/** The data of the page, if the rest of it is, byte for byte, the page that this version writes. */
export function evidenceIn(page: Uint8Array): ReadEvidence {
  if (page.length > MAX_PAGE_BYTES) return { reason: 'it is larger than any evidence file' }
  const text = lineText(page)
  if (text === undefined) return { reason: 'it is not UTF-8' }
  const start = text.indexOf(DATA_START) + DATA_START.length
  const end = text.indexOf('<', start)
  const frame = { before: text.slice(0, start), after: text.slice(end) }
  if (start < DATA_START.length || end < 0 || frameHash(frame) !== frameHash()) {
    return {
      reason:
        'around its data, the file is not the page that this version of svc-sdk writes: it may show other than its data',
    }
  }
  const evidence = readEvidence(text.slice(start, end))
  return 'reason' in evidence ? evidence : { evidence }
}
