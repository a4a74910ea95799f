// Requests that the gateway and the program behind it may read as different tools or resources.
import { Chance } from '../../support/chance.js'

type Face = 'invoke' | 'a2a' | 'invoke-mcp' | 'a2a-mcp' | 'tool' | 'prompt' | 'resource'

export interface GeneratedRequest {
  readonly face: Face
  /** A path segment or `toolAtVersion`, a name, or a URI. */
  readonly text: string
}

const faces = ['invoke', 'a2a', 'invoke-mcp', 'a2a-mcp', 'tool', 'prompt', 'resource', 'resource'] as const
const separators = [
  '/',
  '/',
  '/',
  '%2F',
  '%2f',
  '\\',
  '%5C',
  '%252F',
  '%25%32%66',
  '//',
  '%2F%2F',
  '%c0%af',
] as const
const dots = ['..', '.', '%2e%2e', '.%2E', '%252e%252e', '%25%32%65.', '..;x', '．．', 'x', ''] as const
const names = [
  'get_invoice',
  'get_report',
  'delete_customer',
  'get_é',
  'get_e\u0301',
  'get_%65',
  '%67et_x',
] as const
const versions = ['1.0.0', '1.0', '1.2-beta', '1.', '2.0.0', '1.0%20', '1.0+b', '1.0%252E0'] as const
const ats = ['@', '@', '@', '%40', '%2540'] as const
const noise = [
  ' ',
  '%00',
  '%20',
  ';x',
  '%3F',
  '%23',
  'é',
  'e\u0301',
  '%C3%A9',
  'e%CC%81',
  '%25',
  '%',
  '%u002e',
] as const

/** Generates a request; the same number generates the same request. */
export function requestOf(seed: number): GeneratedRequest {
  const chance = new Chance(seed)
  const face = chance.pick(faces)
  if (face === 'resource') return { face, text: uri(chance) }
  const name = detour(chance, chance.pick(names))
  if (face === 'tool' || face === 'prompt') return { face, text: name }
  return { face, text: `${name}${chance.pick(ats)}${detour(chance, chance.pick(versions))}` }
}

/** The text, often with a detour to another tool. */
function detour(chance: Chance, text: string): string {
  const dice = chance.int(0, 9)
  if (dice < 5) return text
  if (dice === 5) return `${text}${chance.pick(noise)}`
  const out = `${text}${chance.pick(separators)}${chance.pick(dots)}${chance.pick(separators)}`
  if (dice < 8) return `${out}${chance.pick(names)}`
  return `${out}${chance.pick(names)}${chance.pick(ats)}${chance.pick(versions)}`
}

const origins = [
  'file:///srv/public',
  'file:///srv/public',
  'FILE:///srv/public',
  'file:/srv/public',
  'file://localhost/srv/public',
  'https://public.example',
  'https://public.example:8443',
  'https://internal.example',
  'https://INTERNAL.example',
  'https://internal.example:443',
  'https://u@internal.example',
  'https://internal%2eexample',
  'https://internal.example.',
  'HTTPS://internal.example',
  'https:internal.example',
  'https:/internal.example',
  'https:\\\\internal.example',
  ' https://internal.example',
  'demo://box',
  'demo://box',
  'demo://Box',
  'demo://u@box',
  'file:///C|',
] as const
const leaves = [
  'secret',
  '100%',
  'a',
  'b.txt',
  'secret',
  'a%20b',
  'a b',
  '%61',
  '%73ecret',
  'a%26b',
  '100%25',
] as const

function uri(chance: Chance): string {
  let text = `${chance.pick(origins)}/${chance.pick(leaves)}`
  for (let more = chance.int(0, 2) - chance.int(0, 1); more > 0; more--) {
    text += `${chance.pick(separators)}${chance.pick(['..', ...dots, ...leaves])}`
  }
  if (chance.int(0, 2) === 0) text += chance.pick(noise)
  return chance.int(0, 9) === 0 ? `${text}/` : text
}
