// How many cases a property test tries: a sample in `npm test`, many times as many in `npm run chaos:properties`.

const factor = Number(process.env['SVC_PROPERTY_FACTOR'] ?? 1)

export function propertyRuns(sample: number): number {
  return sample * factor
}
