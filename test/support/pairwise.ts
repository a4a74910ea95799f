// A sample of a product of dimensions in which every two values of two dimensions meet, as most faults need no third.
import { propertyRuns } from './property-runs.js'

type Row<T extends readonly (readonly unknown[])[]> = { -readonly [K in keyof T]: T[K][number] }

/** The whole product by `npm run chaos:properties`. Takes the rows in order, each with as many new pairs as a value for it has. */
export function pairwise<const T extends readonly (readonly unknown[])[]>(...dimensions: T): Row<T>[] {
  const product = dimensions.reduce<number[][]>(
    (rows, values) => rows.flatMap((row) => values.map((_, index) => [...row, index])),
    [[]],
  )
  const met = new Set<string>()
  const newPairs = (row: readonly number[]) =>
    row.flatMap((value, at) =>
      row.slice(at + 1).flatMap((other, by) => {
        const pair = `${at}:${value} ${at + 1 + by}:${other}`
        return met.has(pair) ? [] : [pair]
      }),
    )
  const isWhole = propertyRuns(1) > 1
  // Rows that meet only new pairs come first, so that few of the rest are needed.
  const most = (dimensions.length * (dimensions.length - 1)) / 2
  const chosen = new Set<readonly number[]>()
  for (let least = most; least > 0; least--) {
    for (const row of product) {
      const pairs = newPairs(row)
      if (pairs.length < least) continue
      for (const pair of pairs) met.add(pair)
      chosen.add(row)
    }
  }
  return product
    .filter((row) => isWhole || chosen.has(row))
    .map((row) => row.map((value, at) => dimensions[at]?.[value]) as Row<T>)
}
