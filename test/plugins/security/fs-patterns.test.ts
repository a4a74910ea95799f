import { posix } from 'node:path'
import { expect } from 'chai'
import fc from 'fast-check'
import { detailsOf, isAllowed, testInvalidPatterns } from './content-rule.js'

const allows = (patterns: string[], path: string) => isAllowed({ fs_allowlist: patterns }, { path })

describe('security: filesystem patterns', () => {
  for (const [pattern, yes, no] of [
    ['/a/*', ['/a/b', '/a/.b'], ['/a', '/a/b/c', '/b/a']],
    ['/a/**', ['/a', '/a/b', '/a/b/c'], ['/ab', '/']],
    ['/**', ['/', '/a/b'], ['a', '~/a', 'C:/a']],
    ['**', ['a', 'a/b'], ['/a']],
    ['/a/**/z', ['/a/z', '/a/b/z', '/a/z/z'], ['/a/z/b', '/z']],
    ['/**/a/b/**/c', ['/a/b/c', '/x/a/a/b/y/c'], ['/a/c', '/a/b', '/a/x/b/c']],
    ['/a/x*y*z', ['/a/xyz', '/a/x1y2z'], ['/a/xzy', '/a/x/yz']],
    ['c:\\a\\*', ['C:/a/b', 'c:\\a\\b'], ['D:/a/b', '/C:/a/b']],
    ['/a/é', ['/a/e\u0301'], ['/a/e']],
    ['/A', ['/A'], ['/a']],
  ] as const)
    it(`${pattern} matches ${yes.join(', ')} and not ${no.join(', ')}`, async () => {
      for (const path of yes) expect(await allows([pattern], path), path).to.equal(true)
      for (const path of no) expect(await allows([pattern], path), path).to.equal(false)
    })

  testInvalidPatterns('fs_allowlist', '/srv', [
    ['/a/?', '?, [ ] and { } are not supported; the wildcards are * and **'],
    ['/a/{b,c}', '?, [ ] and { } are not supported; the wildcards are * and **'],
    ['/a/../b', '".." is not supported; write the resolved path'],
    ['/a/b**', '** must be a whole segment, as in /srv/**/x'],
    ['~*/a', '* is not supported in a home or server name'],
    ['C:a', 'this path is relative to the current directory of a drive'],
    ['\\\\?\\C:\\a', '?, [ ] and { } are not supported; the wildcards are * and **'],
    ['$HOME/a', 'this path starts with a variable'],
    ['/a\0', 'this path contains a NUL character'],
  ])

  const name = fc.constantFrom('a', 'b', 'ab', 'a.b')
  const step = fc.oneof(name, fc.constantFrom('.', '..', ''))
  const glob = fc.oneof(name, fc.constantFrom('*', '**', 'a*', '*b'))
  const slash = fc.constantFrom('/', '//', '/./')

  it('agree with a naive implementation', async () => {
    const pattern = fc.array(glob, { minLength: 1, maxLength: 5 }).map((names) => `/${names.join('/')}`)
    const path = fc
      .tuple(fc.array(step, { maxLength: 7 }), slash)
      .map(([names, by]) => `/x${by}${names.join(by)}`)
    await fc.assert(
      fc.asyncProperty(fc.array(pattern, { maxLength: 3 }), path, async (patterns, text) => {
        const names = posix
          .normalize(text)
          .split('/')
          .filter((part) => part !== '')
        const expected = patterns.some((p) => naive(p.split('/').slice(1), names))
        expect(await allows(patterns, text)).to.equal(expected)
      }),
      { numRuns: 500 },
    )
  })

  it('never allow a path outside the directory, in any encoding', async () => {
    const dots = fc.constantFrom('..', '%2e%2e', '.%2E', '%252e%252e', '．．', '.\\..', './..')
    const by = fc.constantFrom('/', '\\', '%2f', '%5c', '%252F', '／')
    const part = fc.tuple(fc.oneof(dots, name), by).map(([text, slashText]) => text + slashText)
    const key = fc.constantFrom('path', 'q')
    await fc.assert(
      fc.asyncProperty(fc.array(part, { maxLength: 8 }), key, async (parts, named) => {
        const text = `/srv/in/${parts.join('')}x`
        const details = await detailsOf({ fs_allowlist: ['/srv/in/**'] }, { [named]: text })
        if (isOut(text)) expect(details).to.have.lengthOf(1)
      }),
      { numRuns: 500 },
    )
  })
})

/** Tries every assignment of segments to wildcards. */
function naive(pattern: readonly string[], names: readonly string[]): boolean {
  const [first, ...rest] = pattern
  if (first === undefined) return names.length === 0
  if (first === '**') return naive(rest, names) || (names.length > 0 && naive(pattern, names.slice(1)))
  const [name, ...others] = names
  const fits = new RegExp(`^${first.replaceAll('.', '\\.').replaceAll('*', '.*')}$`)
  return name !== undefined && fits.test(name) && naive(rest, others)
}

/** Whether the fully decoded path is outside the directory. */
function isOut(text: string): boolean {
  const plain = decodeURIComponent(decodeURIComponent(text)).normalize('NFKC').replaceAll('\\', '/')
  const path = posix.normalize(plain)
  return path !== '/srv/in' && !path.startsWith('/srv/in/')
}
