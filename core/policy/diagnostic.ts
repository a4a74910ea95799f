// How a mistake in a policy reads: one line each, clickable in a terminal and in an editor.
import type { Diagnostic } from './types.js'

/** Where a part of a policy stands. Lines and columns count from 1; absent for what code passed. */
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

export function mistakeAt(origin: Origin, path: string, message: string): Diagnostic {
  return diagnosticAt('mistake', origin, path, message)
}

export function warningAt(origin: Origin, path: string, message: string): Diagnostic {
  return diagnosticAt('warning', origin, path, message)
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

/** In the order of the text; what has no position keeps its place before what has. */
export function inOrderOfText(diagnostics: readonly Diagnostic[]): Diagnostic[] {
  const files = [...new Set(diagnostics.map(({ file }) => file))]
  return [...diagnostics].sort(
    (a, b) =>
      files.indexOf(a.file) - files.indexOf(b.file) ||
      (a.line ?? 0) - (b.line ?? 0) ||
      (a.column ?? 0) - (b.column ?? 0),
  )
}

/** A policy that cannot be used. The message lists every mistake, one a line. */
export class PolicyError extends Error {
  override readonly name = 'PolicyError'
  constructor(readonly mistakes: readonly Diagnostic[]) {
    super(mistakes.map(formatDiagnostic).join('\n'))
  }
}
