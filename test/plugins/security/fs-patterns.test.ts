import { posix } from 'node:path'
import { securityPlugin } from '@svc/plugin-security'
import { expect } from 'chai'
import fc from 'fast-check'
import { detailsOf } from './content.js'

async function allows(patterns: string[], path: string): Promise<boolean> {
  return (await detailsOf({ fs_allowlist: patterns }, { path })).length === 0
}

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

  for (const [pattern, message] of [
    ['/a/?', 'the wildcards are * and **; write * for ?, [ and {'],
    ['/a/{b,c}', 'the wildcards are * and **; write * for ?, [ and {'],
    ['/a/../b', 'write the path that ".." leads to'],
    ['/a/b**', '** stands for whole names: /srv/**/x'],
    ['~*/a', 'a home or server is written without a star'],
    ['C:a', 'this path is relative to the current directory of a drive'],
    ['\\\\?\\C:\\a', 'the wildcards are * and **; write * for ?, [ and {'],
    ['$HOME/a', 'this path begins with a variable'],
    ['/a\0', 'this path holds a NUL'],
  ] as const)
    it(`refuse ${JSON.stringify(pattern)} at load`, () => {
      const { error } = securityPlugin.schema.safeParse({ fs_allowlist: ['/srv', pattern] })
      expect(error?.issues.map((issue) => [issue.path.join('.'), issue.message])).to.deep.equal([
        ['fs_allowlist.1', message],
      ])
    })

  const name = fc.constantFrom('a', 'b', 'ab', 'a.b')
  const step = fc.oneof(name, fc.constantFrom('.', '..', ''))
  const glob = fc.oneof(name, fc.constantFrom('*', '**', 'a*', '*b'))
  const slash = fc.constantFrom('/', '//', '/./')

  it('decide as a naive reading of the rule does', async () => {
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

  it('never let a path out of its directory, however it is written', async () => {
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

/** Every way to put stars into names. */
function naive(pattern: readonly string[], names: readonly string[]): boolean {
  const [first, ...rest] = pattern
  if (first === undefined) return names.length === 0
  if (first === '**') return naive(rest, names) || (names.length > 0 && naive(pattern, names.slice(1)))
  const [name, ...others] = names
  const fits = new RegExp(`^${first.replaceAll('.', '\\.').replaceAll('*', '.*')}$`)
  return name !== undefined && fits.test(name) && naive(rest, others)
}

/** Whether the most that can be decoded leads out. */
function isOut(text: string): boolean {
  const plain = decodeURIComponent(decodeURIComponent(text)).normalize('NFKC').replaceAll('\\', '/')
  const path = posix.normalize(plain)
  return path !== '/srv/in' && !path.startsWith('/srv/in/')
}
