// Lines that the holder of a log's key signs, and evidence files that prove them.

import { canonicalize, toBase64 } from '@svc/core/json'
import type { Digest } from '@svc/plugin-audit/internal/log/format/digest'
import { inclusionRanges } from '@svc/plugin-audit/internal/log/format/merkle-proof'
import { proofText } from '@svc/plugin-audit/internal/log/format/proof-text'
import { leafHash, nodeHash } from '@svc/plugin-audit/internal/log/merkle/tree-hash'
import { evidencePage } from '@svc/plugin-audit/internal/log/tools/evidence/page-frame'
import { noteOf, plainRecord, signerOf } from '../../../../../support/audit-log.js'
import { DAY } from './evidence-rig.js'

const signer = signerOf(7)
export const ORIGIN = 'svc-audit.invalid/00112233445566778899aabbccddeeff'

export interface Forgery {
  readonly title: string
  readonly page: string
  readonly keys?: string
  /** `list number`, or `page` for the whole file. Empty: it proves what it says. */
  readonly found: readonly string[]
}

type Line = string | Uint8Array
type Json = Record<string, unknown>

let serial = 0

/** An unsigned record with other members. `undefined` removes one. */
export function forgedRecord(changes: Json = {}): Json {
  const number = serial++
  const whole: Json = {
    ...plainRecord(DAY, number),
    key_id: signer.keyId,
    log_id: '0011223344556677',
    seq: `aaaaaaaaaaaaaaaa:${number}`,
    ...changes,
  }
  return Object.fromEntries(Object.entries(whole).filter(([, value]) => value !== undefined))
}

export function signatureOf(text: Line): string {
  return `ed25519:${toBase64(signer.sign(Buffer.from(text)))}`
}

export function forgedLine(changes: Json = {}): string {
  const record = forgedRecord(changes)
  return canonicalize({ ...record, sig: signatureOf(canonicalize(record)) })
}

/** The text of a record, changed before it is signed: the signature fits the bytes. */
export function signedText(change: (text: string) => string, changes: Json = {}): string {
  const text = change(canonicalize(forgedRecord(changes)))
  return text.replace(/,(\s*)"span_id"/, () => `,"sig":"${signatureOf(text)}","span_id"`)
}

/** An evidence file that proves the lines, of a log that has no other. */
export function pageOfLines(lines: readonly Line[], filter = {}, definitions: readonly Line[] = []): string {
  const all = [...lines, ...definitions].map((line) => Buffer.from(line))
  const leaves = all.map((line) => leafHash(line))
  const head = { origin: ORIGIN, size: all.length, root: rootOf(leaves) }
  const checkpoint = noteOf(head, [signer])
  const proofs = all.map((record, index) => {
    const path = inclusionRanges(index, all.length).map(({ start, end }) => rootOf(leaves.slice(start, end)))
    return proofText({ record, index, path, checkpoint })
  })
  return evidencePage({
    evidence: 1,
    made_at: `${DAY}T12:00:00Z`,
    made_by: 'a test',
    filter,
    more: 0,
    not_sealed: 0,
    records: proofs.slice(0, lines.length),
    definitions: proofs.slice(lines.length),
  })
}

function rootOf(leaves: readonly Digest[]): Digest {
  const [only = ''] = leaves
  if (leaves.length < 2) return only
  let split = 1
  while (split * 2 < leaves.length) split *= 2
  return nodeHash(rootOf(leaves.slice(0, split)), rootOf(leaves.slice(split)))
}

const START = '<script type="application/json" id="evidence">'

interface Data {
  records: string[]
  [member: string]: unknown
}

/** Changes the data, and writes it as the page has it. */
export function data(page: string, change: (data: Data) => unknown): string {
  const value = JSON.parse(dataOf(page)) as Data
  change(value)
  const text = canonicalize(value).replace(
    /[<>&\u2028\u2029\ufffd]/g,
    (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
  return page.replace(dataOf(page), () => text)
}

export const dataOf = (page: string) =>
  page.slice(page.indexOf(START) + START.length, page.indexOf('</script>', page.indexOf(START)))

/** Another digit of base64 with other low bits. */
export const nextDigit = (digit = '') =>
  'BCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/A'[
    'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'.indexOf(digit)
  ] ?? 'A'
