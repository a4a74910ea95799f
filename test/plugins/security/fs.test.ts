import { securityPlugin } from '@svc/plugin-security'
import { expect } from 'chai'
import { checkSection } from '../../support/check.js'
import { detailsOf, isAllowed, stringTests, testContentRule } from './content-rule.js'

const fs_allowlist = [
  '/srv/**',
  '/tmp/*.txt',
  '~/notes/**',
  'C:/data/**',
  '//share/pub/**',
  'out/*.csv',
  '/var/**/log',
]
const security = { fs_allowlist }
const { allows, finds } = stringTests(security)

const opens = (path: string) => `$.q would open ${path}; fs_allowlist does not allow it`

describe('security: filesystem', () => {
  testContentRule({
    key: 'fs_allowlist',
    reason: 'fs_violation',
    otherReason: 'egress_violation',
    allowlist: fs_allowlist,
    allowed: { path: '/srv/a' },
    violation: {
      argument: 'path',
      value: '/etc/passwd',
      detail: 'would open /etc/passwd; fs_allowlist does not allow it',
    },
    prose: 'no path',
    keys: {
      names: [
        'path',
        'file',
        'filename',
        'dir',
        'directory',
        'folder',
        'cwd',
        'src',
        'dest',
        'source',
        'destination',
        'filePath',
        'OUT_DIR',
      ],
      violating: ['secrets/x', '//etc/passwd'],
      allowed: ['out/x.csv', '//srv/x'],
    },
    nested: {
      args: { a: [{ path: ['/srv/a', { x: 'b' }] }] },
      detail: '$.a[0].path[1].x would open b; fs_allowlist does not allow it',
    },
    otherKeys: { profile: 'x', paths: 'x' },
    memberNames: { violating: { write: { '/etc/passwd': 'x' } }, allowed: { path: { secrets: 1 } } },
  })

  describe('for strings that start like a path', () => {
    allows(
      '/srv/a/b',
      '/srv',
      '/srv//a/./b/../c',
      '/srv/a b.txt',
      '/srv/100%25',
      '/srv/日本/が',
      '/tmp/a.txt',
      '~/notes/x',
      'C:\\data\\x',
      'c:/data/x',
      '\\\\SHARE\\pub\\x',
      '/var/log',
      '/var/a/b/log',
      'file:///srv/a%20b',
      'file:/srv/a',
      'file:///C:/data/x',
      'file://share/pub/x',
      '//etc/passwd',
      'etc/passwd',
      'a ../b',
      '...',
      'and/or',
      'file: see below',
      '12:30',
      '',
    )

    finds('/etc/passwd', opens('/etc/passwd'))
    finds('/', opens('/'))
    finds('/srv2/x', opens('/srv2/x'))
    finds('/tmp/a/b.txt', opens('/tmp/a/b.txt'))
    finds('~', opens('~/'))
    finds('~/x', opens('~/x'))
    finds('~root/notes/x', opens('~root/notes/x'))
    finds('./x', opens('x'))
    finds('/var/log/x', opens('/var/log/x'))

    describe('with parent directories', () => {
      finds('../etc', /leaves its base directory/)
      finds('..', /leaves its base directory/)
      finds('/srv/../etc/passwd', opens('/etc/passwd'))
      finds('/srv/a/../../../../etc/passwd', opens('/etc/passwd'))
      finds('~/notes/../../x', /leaves its base directory/)
      finds('/srv/.../x', /dots and spaces/)
      finds('/srv/.. /x', /dots and spaces/)
      allows('/../srv/x')
    })

    describe('percent-encoded', () => {
      finds('/srv/%2e%2e/etc', opens('/etc'))
      finds('/srv/..%2f..%2fetc', opens('/etc'))
      finds('/srv/%252e%252e%252fetc', opens('/etc'))
      finds('/srv/%25252e%25252e/etc', /more than twice/)
      finds('/srv/..%c0%afetc', /not UTF-8/)
      finds('/srv/%u002e%u002e/etc', /%u escape/)
      finds('%2e%2e%2fetc', /leaves its base directory/)
      finds('%252fetc', opens('/etc'))
      finds('%2fetc%2fpasswd', opens('/etc/passwd'))
      finds('/etc/%2e%2e/srv/x', opens('/etc/%2e%2e/srv/x'))
      finds(`${'%20'.repeat(100)}/etc`, /fs_allowlist cannot allow it/)
    })

    describe('with a NUL', () => {
      finds('/srv/a\0.txt', '$.q contains a NUL character, so fs_allowlist cannot allow it')
      finds('/srv/a%00.txt', /contains a NUL/)
      finds('/srv/a%2500.txt', /contains a NUL/)
      finds('\0/etc/passwd', opens('/etc/passwd'))
    })

    describe('for Windows', () => {
      finds('C:\\Windows\\x', opens('C:/Windows/x'))
      finds('C:/data/../Windows', opens('C:/Windows'))
      finds('C:\\data\\..\\Windows', opens('C:/Windows'))
      finds('\\\\evil\\share', opens('//evil/share'))
      finds('/\\evil\\share', opens('//evil/share'))
      finds('\\\\?\\C:\\data\\x', /names a device/)
      finds('\\\\.\\pipe\\x', /names a device/)
      finds('..\\x', /leaves its base directory/)
      finds('/srv/a\\..\\..\\etc', opens('/etc'))
      finds('/etc\\..\\srv\\x', opens('/etc\\..\\srv\\x'))
      finds('\\\\share\\pub\\..\\x', opens('//share/x'))
    })

    describe('with Unicode characters', () => {
      finds('/srv/．．/etc', opens('/etc'))
      finds('/srv/‥/etc', opens('/etc'))
      finds('／etc／passwd', /would open/)
      finds('/srv/a／..／..／etc', opens('/etc'))
      finds(`/srv/a${'\u0301'.repeat(31)}`, /combining marks/)
    })

    describe('with white space', () => {
      finds(' \n/etc/passwd', opens('/etc/passwd'))
      finds('\u00a0/etc/passwd', opens('/etc/passwd'))
      finds('/\t/etc', /dots and spaces/)
    })

    describe('as file: URLs', () => {
      finds('file:///etc/passwd', opens('/etc/passwd'))
      finds('FILE:/etc/passwd', opens('/etc/passwd'))
      finds('fi\nle:///etc/passwd', opens('/etc/passwd'))
      finds('file:etc/passwd', opens('/etc/passwd'))
      finds('file://localhost/etc/passwd', opens('/etc/passwd'))
      finds('file:///srv/%2e%2e/etc', opens('/etc'))
      finds('file:///srv/%252e%252e/etc', opens('/etc'))
      finds('file:///srv/%2525252e', /more than twice/)
      finds('file://evil/share', opens('//evil/share'))
      finds('file:\\\\evil\\share', opens('//evil/share'))
      finds('file:///C:/Windows', opens('C:/Windows'))
      finds('file:///C|/Windows', opens('C:/Windows'))
      finds('file:///srv/a%00', /contains a NUL/)
      finds('file:///srv/a?/../../etc', /query or fragment/)
      finds('file:///srv/a#b', /query or fragment/)
      finds('file://[', /not a valid file: URL/)
      finds('file%3A%2F%2F%2Fetc', opens('/etc'))
      finds('jar:file:///srv/a.jar!/x', /inside another/)
    })

    finds(`/srv/${'a'.repeat(40_000)}`, /too long for a path/)
    finds(`file:/srv/${'a'.repeat(40_000)}`, /too long for a path/)
  })

  describe('for values of a key named for paths', () => {
    const path = stringTests(security, 'path')

    for (const text of [
      '',
      '.',
      '..',
      'out/../../x.csv',
      'out/a/x.csv',
      'C:x',
      '$HOME/x',
      '%APPDATA%\\x',
      '100%ff',
      // The base directory and the schemes together would be an allowed path.
      'php://filter/resource=out/x.csv',
      'ZIP://out/x.zip#a',
      'vscode-remote://host/out/x.csv',
      'php%3A//filter/resource=out/x.csv',
    ])
      path.finds(text)

    path.allows('out/x.csv', './out/x.csv', 'out\\x.csv', 'a/../out/x.csv', 'out/%61.csv')
  })

  describe('with fs_root', () => {
    const rooted = { fs_root: '/srv/app', fs_allowlist: ['data/**', '/tmp/**'] }

    it('resolves relative paths and patterns', async () => {
      for (const path of ['data/x', './data/x', 'x/../data', '/srv/app/data/x', '../../tmp/x', '../app/data'])
        expect(await isAllowed(rooted, { path }), path).to.equal(true)
      for (const path of ['x', '../data/x', 'data/../../../etc', '/data/x'])
        expect(await isAllowed(rooted, { path }), path).to.equal(false)
    })

    it('requires an absolute path', () => {
      for (const fs_root of ['srv', '~/x', '/srv/*', '', 'C:x'])
        expect(securityPlugin.schema.safeParse({ fs_root }).success, fs_root).to.equal(false)
      expect(securityPlugin.schema.safeParse({ fs_root: 'D:\\app' }).success).to.equal(true)
    })

    it('warns without fs_allowlist', () => {
      expect(checkSection(securityPlugin, { fs_root: '/srv' })).to.deep.equal([
        'warning security.fs_root: has no effect without fs_allowlist',
      ])
    })
  })

  it('checks file: URLs without a host in place of the egress rule', async () => {
    const both = { ...security, egress_allowlist: ['good.com'] }
    for (const text of ['file:///srv/a', 'file:/srv/a', 'file://localhost/srv/a'])
      expect(await detailsOf(both, { q: text }), text).to.deep.equal([])
    expect(await detailsOf(both, { q: 'file://share/pub/a' })).to.deep.equal([
      '$.q has the scheme file:, which egress_allowlist does not allow',
    ])
    expect(await detailsOf(both, { url: 'file:///srv/a' })).to.deep.equal([])
  })
})
