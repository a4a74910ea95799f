// Divides a profile by the parts of the program. A sample counts for the innermost function that belongs to a part; what
// the engine and node do for that function counts with it.
import type { Frame } from './frames.js'

/** Samples that no function of a part has called. */
const OUTSIDE = 'event loop and system calls'
export const UNDICI = 'undici'
export const STREAMS = 'node:http and streams'
export const MICROTASKS = 'microtasks'
/** These threads sync the log, collect garbage, compile, and take the samples. */
export const OTHER_THREADS = 'other threads'

/** The part of a function's samples, given the part of its caller's; undefined while idle, and of the measurement itself. */
export function partOf({ name, url }: Frame, ofCaller = OUTSIDE): string | undefined {
  if (name === '(idle)' || url.includes('/bench/dist/measure/')) return undefined
  if (name === '(garbage collector)') return 'garbage collection'
  if (name === 'runMicrotasks' || name === 'processTicksAndRejections') return MICROTASKS
  // Its parser of responses is WebAssembly.
  if (url.includes('/undici/') || url.startsWith('wasm:')) return UNDICI
  if (url.includes('/sodium-native/')) return 'signature'
  const [, section, folder = ''] = /\/(plugins\/\w+|core|app|bench)\/dist\/(.*\/)?/.exec(url) ?? []
  if (section !== undefined) return `${section}/${folder}`.slice(0, -1)
  const isOfNode = url.startsWith('node:') && (ofCaller === OUTSIDE || ofCaller === MICROTASKS)
  return isOfNode ? STREAMS : ofCaller
}

/** The weight of each part. */
export function byPart(root: Frame): Map<string, number> {
  const parts = new Map<string, number>()
  const add = (frame: Frame, ofCaller: string | undefined): void => {
    const part = partOf(frame, ofCaller)
    if (part === undefined) return
    parts.set(part, (parts.get(part) ?? 0) + frame.weight)
    for (const callee of frame.callees) add(callee, part)
  }
  add(root, undefined)
  return parts
}

/** The groups of the pictures: each has the parts of its list, and the folders below them. */
export const groups = [
  { name: 'core', of: ['core'], colour: '#4269d0' },
  { name: 'app (the relay: its own code)', of: ['app', 'bench'], colour: '#97bbf5' },
  { name: 'plugins/audit', of: ['plugins/audit'], colour: '#6cc5b0' },
  { name: 'the signature', of: ['signature'], colour: '#3ca951' },
  {
    name: 'the other sections',
    of: [
      'plugins/quotas',
      'plugins/entitlements',
      'plugins/security',
      'plugins/authn',
      'plugins/enforcement',
    ],
    colour: '#efb118',
  },
  { name: UNDICI, of: [UNDICI], colour: '#ff8ab7' },
  { name: STREAMS, of: [STREAMS], colour: '#ff725c' },
  { name: OUTSIDE, of: [OUTSIDE], colour: '#9c6b4e' },
  { name: MICROTASKS, of: [MICROTASKS], colour: '#a463f2' },
  { name: 'garbage collection', of: ['garbage collection'], colour: '#9498a0' },
  { name: OTHER_THREADS, of: [OTHER_THREADS], colour: '#bab0ab' },
]

export type Group = (typeof groups)[number]

export function isIn({ of }: Group, part: string): boolean {
  return of.some((name) => part === name || part.startsWith(`${name}/`))
}
