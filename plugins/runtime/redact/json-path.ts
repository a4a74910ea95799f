// A subset of JSONPath (RFC 9535): `$`, `.name`, `['name']`, `[3]`, `.*`, `[*]` and at most one `..`. With more than one,
// the cost would grow with a power of the value's depth.

type Step =
  | { readonly kind: 'member'; readonly name: string }
  | { readonly kind: 'index'; readonly index: number }
  | { readonly kind: 'any' }
  | { readonly kind: 'descend' }

export type JsonPath = readonly Step[]

const segment =
  /(?<dots>\.\.?)(?:(?<name>[\p{L}_][\p{L}\p{N}\p{M}_-]*)|(?<star>\*))|(?<descend>\.\.)?\[(?:(?<any>\*)|(?<index>0|[1-9]\d{0,8})|'(?<single>[^'\\]*)'|"(?<double>[^"\\]*)")\]/uy

/** Undefined for a path outside the subset. */
export function parsePath(text: string): JsonPath | undefined {
  if (!text.startsWith('$')) return undefined
  const steps: Step[] = []
  segment.lastIndex = 1
  while (segment.lastIndex < text.length) {
    const groups = segment.exec(text)?.groups
    if (groups === undefined) return undefined
    if (groups['dots'] === '..' || groups['descend'] !== undefined) steps.push({ kind: 'descend' })
    steps.push(selectorOf(groups))
  }
  return steps.filter(({ kind }) => kind === 'descend').length > 1 ? undefined : steps
}

function selectorOf(groups: Readonly<Record<string, string | undefined>>): Step {
  const name = groups['name'] ?? groups['single'] ?? groups['double']
  if (name !== undefined) return { kind: 'member', name }
  const { index } = groups
  return index === undefined ? { kind: 'any' } : { kind: 'index', index: Number(index) }
}

/** The value with `replacement` in place of each node that the path selects; unchanged where it selects none. */
export function replacePath(value: unknown, path: JsonPath, replacement: unknown, at = 0): unknown {
  const step = path[at]
  if (step === undefined) return replacement
  if (typeof value !== 'object' || value === null) return value
  if (step.kind === 'descend') {
    const replaced = replacePath(value, path, replacement, at + 1)
    return mapChildren(replaced, (child) => replacePath(child, path, replacement, at))
  }
  return mapChildren(value, (child, key) =>
    selects(step, key) ? replacePath(child, path, replacement, at + 1) : child,
  )
}

function selects(step: Step, key: string | number): boolean {
  if (step.kind === 'any') return true
  return step.kind === 'member' ? step.name === key : step.kind === 'index' && step.index === key
}

/** The array or object with each element or member mapped; any other value unchanged. */
export function mapChildren(value: unknown, map: (child: unknown, key: string | number) => unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map((child: unknown, index) => map(child, index))
  return Object.fromEntries(Object.entries(value).map(([key, child]) => [key, map(child, key)]))
}
