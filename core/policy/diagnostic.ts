// Diagnostics of a policy: one line each, in a form that terminals and editors turn into a link.
import { visibleInLine } from '../json/visible.js'
import type { Diagnostic } from './types.js'

/** The position of a value in a policy. Lines and columns count from 1; absent for objects of code. */
export interface Origin {
  readonly file: string
  readonly line?: number
  readonly column?: number
}

/** `FILE:LINE:COL path: what is wrong, what is accepted`; without a position `FILE path: …`. */
export function formatDiagnostic(diagnostic: Diagnostic): string {
  const { file, line, column, path, message } = diagnostic
  const place = line === undefined ? file : `${file}:${line}:${column ?? 1}`
  return path === '' ? `${place} ${message}` : `${place} ${path}: ${message}`
}

/** The line of a diagnostic, and the source line with a caret if it has one. */
export function describeDiagnostic(diagnostic: Diagnostic): string {
  const line = visibleInLine(formatDiagnostic(diagnostic))
  return diagnostic.excerpt === undefined ? line : `${line}\n${diagnostic.excerpt}`
}

export function mistakeAt(origin: Origin, path: string, message: string): Diagnostic {
  return diagnosticAt('mistake', origin, path, message)
}

export function warningAt(origin: Origin, path: string, message: string): Diagnostic {
  return diagnosticAt('warning', origin, path, message)
}

export function noteAt(origin: Origin, path: string, message: string): Diagnostic {
  return diagnosticAt('note', origin, path, message)
}

function diagnosticAt(
  severity: Diagnostic['severity'],
  { file, line, column }: Origin,
  path: string,
  message: string,
): Diagnostic {
  const position = line === undefined || column === undefined ? {} : { line, column }
  return { severity, file, ...position, path, message }
}

/** Sorted by file, line and column; those without a line come first. */
export function sortedByPosition(diagnostics: readonly Diagnostic[]): Diagnostic[] {
  const files = [...new Set(diagnostics.map(({ file }) => file))]
  return [...diagnostics].sort(
    (a, b) =>
      files.indexOf(a.file) - files.indexOf(b.file) ||
      (a.line ?? 0) - (b.line ?? 0) ||
      (a.column ?? 0) - (b.column ?? 0),
  )
}

/** The error for an invalid policy. The message lists every mistake, one per line. */
export class PolicyError extends Error {
  override readonly name = 'PolicyError'
  constructor(readonly mistakes: readonly Diagnostic[]) {
    super(mistakes.map(formatDiagnostic).join('\n'))
  }
}
