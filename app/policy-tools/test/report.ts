// The report of `svc policy test`: for people, as JSON, and as JUnit XML.
import { defined, visibleInLine } from '@svc/core/json'
import type { StageNote } from '../judge/stages.js'
import type { CaseResult, Judged } from './run-case.js'
import type { FileResult, PlacedEntry, PolicyTests } from './run-tests.js'

const MAX_WIDTH = 64
/** Entries that the summary names; JSON has all. */
const MAX_NAMED = 12

export function reportLines(results: readonly PolicyTests[]): string[] {
  const cases = results.flatMap(({ files }) => files.flatMap((file) => file.cases))
  const width = Math.min(MAX_WIDTH, Math.max(...cases.map(({ test }) => test.name.length)))
  return results.flatMap((tests) => [
    ...tests.files.flatMap((file) =>
      file.cases.flatMap((one) => caseLines(file, one, { width, rules: tests.rules })),
    ),
    summaryOf(tests, results.length > 1),
    ...neverLines(tests.neverApplied),
  ])
}

interface Shown {
  readonly width: number
  readonly rules: readonly PlacedEntry[]
}

function caseLines(
  { file }: FileResult,
  { test, last, difference }: CaseResult,
  { width, rules }: Shown,
): string[] {
  const name = visibleInLine(test.name).padEnd(width)
  if (difference === undefined) {
    const count = test.calls.reduce((sum, { times }) => sum + times, 0)
    return [`  ok    ${name}  ${count === 1 ? decisionOf(last) : `${count} calls`}`]
  }
  const { call, number, judged } = difference
  const which = test.calls.length === 1 ? '' : `call ${number}: `
  return [
    `  FAIL  ${name}  ${file}:${call.line ?? test.line ?? 1}`,
    `        ${which}expected ${expected(call)}, got ${decisionOf(judged)}`,
    ...[judged.message, ...judged.notes.map((note) => explained(note, rules))]
      .filter((line) => line !== '')
      .map((line) => `        ${visibleInLine(line)}`),
  ]
}

/** A rule comes with its place instead of its section. */
function explained({ stage, text, entry }: StageNote, rules: readonly PlacedEntry[]): string {
  const rule = entry?.kind === 'rule' ? rules.find(({ path }) => `${path}` === `${entry.path}`) : undefined
  if (rule === undefined) return `${stage}: ${text}`
  return `${rule.name} (${rule.file}:${rule.line ?? 1})  ${text.slice(rule.name.length + 2)}`
}

function expected({
  expect,
  reason,
}: {
  readonly expect: string
  readonly reason: string | undefined
}): string {
  return reason === undefined ? expect : `${expect} (${reason})`
}

function decisionOf({ decision, reasons: [reason] }: Judged): string {
  return reason === undefined ? decision : `${decision} (${reason})`
}

function summaryOf({ policy, files, counts }: PolicyTests, isNamed: boolean): string {
  const { passed, failed } = totals(files)
  const counted = counts.map(({ kind, applied, total }) => `${kind}s ${applied}/${total}`)
  return [`${isNamed ? `${policy}: ` : ''}${passed} passed, ${failed} failed`, ...counted].join('   ')
}

function neverLines(entries: readonly PlacedEntry[]): string[] {
  if (entries.length === 0) return []
  const named = entries
    .slice(0, MAX_NAMED)
    .map(({ kind, name, file, line }) => `  ${kind} ${visibleInLine(name)} (${file}:${line ?? 1})`)
  const more = entries.length - named.length
  return ['never matched:', ...named, ...(more === 0 ? [] : [`  and ${more} more, which --json lists`])]
}

export function totals(files: readonly FileResult[]): { readonly passed: number; readonly failed: number } {
  const cases = files.flatMap((file) => file.cases)
  const failed = cases.filter(({ difference }) => difference !== undefined).length
  return { passed: cases.length - failed, failed }
}

export function reportJson(results: readonly PolicyTests[]): object {
  return {
    policies: results.map(({ policy, files, counts, percent, neverApplied }) => ({
      policy,
      ...totals(files),
      cases: files.flatMap(({ file, cases }) => cases.map((one) => jsonOf(file, one))),
      coverage: {
        percent,
        ...Object.fromEntries(
          counts.map(({ kind, applied, total }) => [`${kind}s`, { matched: applied, total }]),
        ),
        never_matched: neverApplied.map(({ kind, name, path, file, line }) => ({
          kind,
          name,
          path,
          file,
          line,
        })),
      },
    })),
  }
}

function jsonOf(file: string, { test, last, difference }: CaseResult): object {
  const { name, line } = test
  if (difference === undefined)
    return { name, file, line, ok: true, decision: last.decision, reasons: last.reasons }
  const { call, number, judged } = difference
  const { expect, reason } = call
  return {
    ...{ name, file, line: call.line ?? line, ok: false, call: number },
    expected: { decision: expect, ...defined({ reason }) },
    ...judged,
  }
}

/** The results in the form that CI systems read: a suite for each file. */
export function reportJunit(results: readonly PolicyTests[]): string {
  const files = results.flatMap((tests) => tests.files.map((file) => ({ ...file, rules: tests.rules })))
  const suites = files.flatMap((file) => [
    `<testsuite name="${xml(file.file)}" tests="${file.cases.length}" failures="${totals([file]).failed}">`,
    ...file.cases.map((one) => testcaseOf(file, one, file.rules)),
    '</testsuite>',
  ])
  return ['<?xml version="1.0" encoding="UTF-8"?>', '<testsuites>', ...suites, '</testsuites>', ''].join('\n')
}

function testcaseOf(file: FileResult, result: CaseResult, rules: readonly PlacedEntry[]): string {
  const { test, difference } = result
  const open = `<testcase name="${xml(test.name)}" classname="${xml(file.file)}" file="${xml(file.file)}" line="${test.line ?? 1}"`
  if (difference === undefined) return `${open}/>`
  const [, message = '', ...details] = caseLines(file, result, { width: 0, rules }).map((line) => line.trim())
  return `${open}><failure message="${xml(message)}">${xml(details.join('\n'))}</failure></testcase>`
}

const entities: Readonly<Record<string, string>> = { '<': '&lt;', '>': '&gt;', '&': '&amp;', '"': '&quot;' }

/** XML 1.0 cannot express most control characters. */
function xml(text: string): string {
  return text
    .replace(/[<>&"]/g, (sign) => entities[sign] ?? sign)
    .replace(/[^\t\n\r\u{20}-\u{d7ff}\u{e000}-\u{fffd}\u{10000}-\u{10ffff}]/gu, '\ufffd')
}
