import {
  compilePattern,
  formatReference,
  PatternError,
  type Reference,
  ReferenceInputError,
} from '@svc/core/match'
import fc from 'fast-check'

// The naive rule: one pattern, one reference, signs one by one. A raw "/" or "@" is structure and a sign of its own;
// what stood percent-encoded is a letter, and has a quote before it.
type Sign = string
const STAR: Sign = '*'
const letters = (text: string): Sign[] => [...text].map((letter) => `'${letter}`)

function signsOf(text: string): Sign[] {
  const signs: Sign[] = []
  for (const piece of text.match(/(?:%[0-9A-F]{2})+|[^%]/gu) ?? []) {
    if (piece === STAR || piece === '/' || piece === '@') signs.push(piece)
    else signs.push(...letters(decodeURIComponent(piece)))
  }
  return signs
}

function fits(pattern: readonly Sign[], subject: readonly Sign[], at = 0, from = 0): boolean {
  const sign = pattern[at]
  if (sign === undefined) return from === subject.length
  if (sign === STAR)
    return (
      fits(pattern, subject, at + 1, from) || (from < subject.length && fits(pattern, subject, at, from + 1))
    )
  return sign === subject[from] && fits(pattern, subject, at + 1, from + 1)
}

function subjectOf(reference: Reference): { server: Sign[]; path: Sign[]; all: Sign[] } {
  const server = letters(reference.server)
  const kind = 'prompt' in reference ? 'prompts' : 'resource' in reference ? 'resources' : undefined
  const name =
    'prompt' in reference ? reference.prompt : 'resource' in reference ? reference.resource : reference.tool
  const path: Sign[] = [
    ...(kind === undefined ? [] : [...letters(kind), '/']),
    ...letters(name),
    '@',
    ...letters(reference.version),
  ]
  return { server, path, all: [...server, '/', ...path] }
}

export function naive(pattern: string, reference: Reference): boolean {
  const { server, path, all } = subjectOf(reference)
  if (pattern.startsWith('mcp://')) return fits(signsOf(folded(pattern.slice(6))), all)
  const slash = pattern.indexOf('/')
  const [serverText, pathText] =
    slash < 0 ? ['*', pattern] : [pattern.slice(0, slash), folded(pattern).slice(slash + 1)]
  const versioned = pathText.includes('@') ? pathText : `${pathText}@*`
  return fits(signsOf(serverText), server) && fits(signsOf(versioned), path)
}

function folded(text: string): string {
  const [server, kind, ...name] = text.split('/')
  return kind === 'prompts' || kind === 'resources' ? `${server}/${kind}/${name.join('%2F')}` : text
}

// Few letters, so that patterns and references meet often.
const name = fc
  .array(fc.constantFrom('a', 'b', 'ab', 'é', '/', '@', '%', 'prompts', '2', 'F', '.'), {
    minLength: 1,
    maxLength: 4,
  })
  .map((pieces) => pieces.join(''))
const version = fc
  .array(fc.constantFrom('a', 'b', 'ab', '2', 'F', '.'), { minLength: 1, maxLength: 4 })
  .map((pieces) => pieces.join(''))
export const reference: fc.Arbitrary<Reference> = fc
  .oneof(
    fc.record({ server: name, tool: name, version }),
    fc.record({ server: name, prompt: name, version }),
    fc.record({ server: name, resource: name, version }),
  )
  .filter(isReference)
const glob = fc
  .array(fc.constantFrom('a', 'b', 'ab', 'é', '*', '*', '%2F', '%40', '%25', 'F', '2'), {
    minLength: 1,
    maxLength: 4,
  })
  .map((pieces) => pieces.join(''))
const path = fc
  .tuple(
    fc.constantFrom('', '', '', 'prompts/', 'resources/', 'resources/a/', '*/'),
    glob,
    fc.option(glob, { nil: undefined }),
  )
  .map(([kind, tool, version]) => `${kind}${tool}${version === undefined ? '' : `@${version}`}`)
export const free = fc.oneof(
  fc.tuple(glob, path).map(([server, rest]) => `${server}/${rest}`),
  fc.tuple(glob, path).map(([server, rest]) => `mcp://${server}/${rest}`),
  glob.map((text) => `mcp://${text}`),
  glob,
  fc.tuple(glob, glob).map(([tool, version]) => `${tool}@${version}`),
)
/** A pattern made from a reference by putting stars in, so that matches are frequent. */
export const near = (from: Reference) =>
  fc.tuple(fc.boolean(), fc.array(fc.tuple(fc.nat(), fc.nat(6)), { maxLength: 3 })).map(([full, cuts]) =>
    cuts
      .reduce((signs, [where, length]) => {
        const at = where % (signs.length + 1)
        return [...signs.slice(0, at), '*', ...signs.slice(at + length)]
      }, formatReference(from).slice(6).match(/%..|./gu) as string[])
      .join('')
      .replace(/^/, full ? 'mcp://' : ''),
  )

/** Resources without escapes: those with escapes are matched decoded. */
export function isReference(parts: Reference): boolean {
  if ('resource' in parts && parts.resource.includes('%')) return false
  try {
    formatReference(parts)
    return true
  } catch (error) {
    if (error instanceof ReferenceInputError) return false
    throw error
  }
}

export function isValid(pattern: string): boolean {
  try {
    compilePattern(pattern)
    return true
  } catch (error) {
    if (error instanceof PatternError) return false
    throw error
  }
}

export const cases = fc.array(reference, { minLength: 1, maxLength: 6 }).chain((references) =>
  fc.record({
    references: fc.constant(references),
    patterns: fc
      .array(fc.oneof(free, fc.constantFrom(...references).chain(near)), { maxLength: 12 })
      .map((patterns) => patterns.filter(isValid)),
  }),
)
