// Reads the values of options of commands.
import { InvalidArgumentError } from 'commander'

export function wholeNumber(min: number, max?: number): (text: string) => number {
  return (text) => {
    const number = Number(text)
    if (/^\d+$/.test(text) && number >= min && number <= (max ?? Number.MAX_SAFE_INTEGER)) return number
    throw new InvalidArgumentError(
      max === undefined ? `expected a whole number from ${min} on` : `expected ${min} to ${max}`,
    )
  }
}

/** Collects the values of an option that may be repeated. */
export function collectValue(value: string, values: readonly string[] = []): readonly string[] {
  return [...values, value]
}

export const portOf = wholeNumber(0, 65_535)

/** A gateway of more processes than any machine has cores is a slip. */
const maxWorkers = 256

export function workersOf(text: string): number | 'auto' {
  if (text === 'auto') return text
  if (/^\d+$/.test(text) && Number(text) >= 1 && Number(text) <= maxWorkers) return Number(text)
  throw new InvalidArgumentError(`expected 1 to ${maxWorkers}, or auto`)
}

const UNIT_MS = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const

/** Parses an age such as `30s`, `5m`, `2h` or `1d` to milliseconds. */
export function ageOf(text: string): number {
  const [, count, unit] = /^(\d{1,9})([smhd])$/.exec(text) ?? []
  if (count !== undefined && unit !== undefined) return Number(count) * UNIT_MS[unit as keyof typeof UNIT_MS]
  throw new InvalidArgumentError('expected an age such as 30s, 5m, 2h or 1d')
}

/** Parses a time to milliseconds since the epoch. */
export function parseInstant(text: string): number {
  const ms = Date.parse(text)
  if (Number.isNaN(ms)) throw new InvalidArgumentError('expected a time such as 2026-01-01T00:00:00Z')
  return ms
}
