// The report of all benchmarks: headings, aligned rows, results as median (min–max).
import type { Spread } from './statistics.js'

export function heading(title: string): void {
  print(`\n${title}\n${'─'.repeat(title.length)}`)
}

export function print(line: string): void {
  process.stdout.write(`${line}\n`)
}

/** A table; the first column is left-aligned, the others right-aligned. */
export function table(rows: readonly (readonly string[])[]): void {
  const widths: number[] = []
  for (const row of rows) {
    row.forEach((cell, column) => {
      widths[column] = Math.max(widths[column] ?? 0, cell.length)
    })
  }
  for (const row of rows) {
    const cells = row.map((cell, column) => {
      const width = widths[column] ?? 0
      return column === 0 ? cell.padEnd(width) : cell.padStart(width)
    })
    print(`  ${cells.join('  ')}`.trimEnd())
  }
}

/** `12.3 (11.9–14.0)`, with as many decimals as asked. */
export function figure({ median, min, max }: Spread, decimals = 1): string {
  return `${median.toFixed(decimals)} (${min.toFixed(decimals)}–${max.toFixed(decimals)})`
}
