// Amounts in major units, as ISO 4217 currencies divide them.

/** Digits after the point; every other currency has 2. */
const digits: Readonly<Record<string, number>> = {
  BHD: 3,
  BIF: 0,
  CLF: 4,
  CLP: 0,
  DJF: 0,
  GNF: 0,
  IQD: 3,
  ISK: 0,
  JOD: 3,
  JPY: 0,
  KMF: 0,
  KRW: 0,
  KWD: 3,
  LYD: 3,
  OMR: 3,
  PYG: 0,
  RWF: 0,
  TND: 3,
  UGX: 0,
  UYI: 0,
  UYW: 4,
  VND: 0,
  VUV: 0,
  XAF: 0,
  XOF: 0,
  XPF: 0,
}

function digitsOf(currency: string): number {
  return Object.hasOwn(digits, currency) ? (digits[currency] ?? 2) : 2
}

/** Only for amounts that a double represents exactly, such as those of `svc ap2 make`. */
export function majorUnitsOf(minor: number, currency: string): number {
  return minor / 10 ** digitsOf(currency)
}

/** The amount in minor units, exactly; undefined for an amount finer than the minor unit. */
export function minorUnitsOf(amount: string | number, currency: string): number | undefined {
  const [, whole, fraction = ''] = /^(\d{1,15})(?:\.(\d{1,15}))?$/.exec(String(amount)) ?? []
  const places = digitsOf(currency)
  const significant = fraction.replace(/0+$/, '')
  if (whole === undefined || significant.length > places) return undefined
  const minor = Number(`${whole}${significant.padEnd(places, '0')}`)
  return Number.isSafeInteger(minor) ? minor : undefined
}
