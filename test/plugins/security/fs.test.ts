import type { JsonValue } from '@svc/core/json'
import { securityPlugin } from '@svc/plugin-security'
import { expect } from 'chai'
import { createStage } from 'svc-sdk/testing'
import { makeCall } from '../../support/call.js'
import { makeContext } from '../../support/context.js'
import { answered, detailsOf } from './content.js'
import { securityStage, served } from './stage.js'

const security = {
  fs_allowlist: [
    '/srv/**',
    '/tmp/*.txt',
    '~/notes/**',
    'C:/data/**',
    '//share/pub/**',
    'out/*.csv',
    '/var/**/log',
  ],
}

async function isAllowed(args: JsonValue, given: object = security): Promise<boolean> {
  return (await detailsOf(given, args)).length === 0
}

function finds(text: string, detail: string | RegExp): void {
  it(`finds ${JSON.stringify(text.slice(0, 60))}`, async () => {
    const details = await detailsOf(security, { q: text })
    expect(details).to.have.lengthOf(1)
    if (typeof detail === 'string') expect(details[0]).to.equal(detail)
    else expect(details[0]).to.match(detail)
  })
}

function allows(text: string): void {
  it(`lets ${JSON.stringify(text)} through`, async () => {
    expect(await detailsOf(security, { q: text })).to.deep.equal([])
  })
}

const opens = (path: string) => `$.q would open ${path}; fs_allowlist does not allow it`

describe('security: filesystem', () => {
  it('is off without a list', async () => {
    expect(await isAllowed({ path: '/etc/passwd' }, {})).to.equal(true)
  })

  it('allows nothing with an empty list', async () => {
    expect(await isAllowed({ path: '/srv/a' }, { fs_allowlist: [] })).to.equal(false)
    expect(await isAllowed({ q: 'no path' }, { fs_allowlist: [] })).to.equal(true)
  })

  describe('the verdict', () => {
    const evil = { path: '/etc/passwd' }

    it('denies, and nothing is sent', async () => {
      const { outcome, isSent } = await answered(security, evil)
      expect(isSent).to.equal(false)
      expect(outcome).to.deep.include({
        kind: 'denied',
        sent: 'no',
        code: 'TOOL_NOT_ALLOWED',
        denial: { level: 'gateway', type: 'security', reason: 'fs_violation' },
      })
    })

    it('allows what is listed', async () => {
      const { outcome, isSent, reasons } = await answered(security, { path: '/srv/a' })
      expect([outcome.kind, isSent, reasons]).to.deep.equal(['completed', true, []])
    })

    it('only records in observe mode, and where deny_on leaves it out', async () => {
      for (const enforcement of [{ mode: 'observe' }, { deny_on: ['egress_violation'] }]) {
        const { outcome, reasons } = await answered(security, evil, enforcement)
        expect([outcome.kind, reasons]).to.deep.equal(['completed', ['fs_violation']])
      }
    })
  })

  describe('of strings that begin like a path', () => {
    for (const text of [
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
    ])
      allows(text)

    finds('/etc/passwd', opens('/etc/passwd'))
    finds('/', opens('/'))
    finds('/srv2/x', opens('/srv2/x'))
    finds('/tmp/a/b.txt', opens('/tmp/a/b.txt'))
    finds('~', opens('~/'))
    finds('~/x', opens('~/x'))
    finds('~root/notes/x', opens('~root/notes/x'))
    finds('./x', opens('x'))
    finds('/var/log/x', opens('/var/log/x'))

    describe('going up', () => {
      finds('../etc', /leaves the directory/)
      finds('..', /leaves the directory/)
      finds('/srv/../etc/passwd', opens('/etc/passwd'))
      finds('/srv/a/../../../../etc/passwd', opens('/etc/passwd'))
      finds('~/notes/../../x', /leaves the directory/)
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
      finds('/srv/%u002e%u002e/etc', /readers disagree/)
      finds('%2e%2e%2fetc', /leaves the directory/)
      finds('%252fetc', opens('/etc'))
      finds('%2fetc%2fpasswd', opens('/etc/passwd'))
      finds('/etc/%2e%2e/srv/x', opens('/etc/%2e%2e/srv/x'))
      finds(`${'%20'.repeat(100)}/etc`, /fs_allowlist cannot allow it/)
    })

    describe('with a NUL', () => {
      finds('/srv/a\0.txt', '$.q holds a NUL, so fs_allowlist cannot allow it')
      finds('/srv/a%00.txt', /holds a NUL/)
      finds('/srv/a%2500.txt', /holds a NUL/)
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
      finds('..\\x', /leaves the directory/)
      finds('/srv/a\\..\\..\\etc', opens('/etc'))
      finds('/etc\\..\\srv\\x', opens('/etc\\..\\srv\\x'))
      finds('\\\\share\\pub\\..\\x', opens('//share/x'))
    })

    describe('in other characters', () => {
      finds('/srv/．．/etc', opens('/etc'))
      finds('/srv/‥/etc', opens('/etc'))
      finds('／etc／passwd', /would open/)
      finds('/srv/a／..／..／etc', opens('/etc'))
      finds(`/srv/a${'\u0301'.repeat(31)}`, /combining marks/)
    })

    describe('behind white space', () => {
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
      finds('file:///srv/a%00', /holds a NUL/)
      finds('file:///srv/a?/../../etc', /query or fragment/)
      finds('file:///srv/a#b', /query or fragment/)
      finds('file://[', /no file: URL/)
      finds('file%3A%2F%2F%2Fetc', opens('/etc'))
      finds('jar:file:///srv/a.jar!/x', /within another/)
    })

    it('finds a path that is too long', async () => {
      expect((await detailsOf(security, { q: `/srv/${'a'.repeat(40_000)}` }))[0]).to.match(
        /too long for a path/,
      )
      expect((await detailsOf(security, { q: `file:/srv/${'a'.repeat(40_000)}` }))[0]).to.match(
        /too long for a path/,
      )
    })
  })

  describe('of strings under a key named like a path', () => {
    for (const key of [
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
    ])
      it(`${key}: whatever they look like`, async () => {
        expect(await isAllowed({ [key]: 'secrets/x' })).to.equal(false)
        expect(await isAllowed({ [key]: '//etc/passwd' })).to.equal(false)
        expect(await isAllowed({ [key]: 'out/x.csv' })).to.equal(true)
        expect(await isAllowed({ [key]: '//srv/x' })).to.equal(true)
      })

    it('at any depth', async () => {
      expect(await detailsOf(security, { a: [{ path: ['/srv/a', { x: 'b' }] }] })).to.deep.equal([
        '$.a[0].path[1].x would open b; fs_allowlist does not allow it',
      ])
    })

    it('and no other key', async () => {
      expect(await isAllowed({ profile: 'x', paths: 'x' })).to.equal(true)
    })

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
    ])
      it(`finds ${JSON.stringify(text)}`, async () => {
        expect(await isAllowed({ path: text })).to.equal(false)
      })

    for (const text of ['out/x.csv', './out/x.csv', 'out\\x.csv', 'a/../out/x.csv', 'out/%61.csv'])
      it(`lets ${JSON.stringify(text)} through`, async () => {
        expect(await isAllowed({ path: text })).to.equal(true)
      })
  })

  describe('below fs_root', () => {
    const rooted = { fs_root: '/srv/app', fs_allowlist: ['data/**', '/tmp/**'] }

    it('resolves relative paths and patterns', async () => {
      for (const path of ['data/x', './data/x', 'x/../data', '/srv/app/data/x', '../../tmp/x', '../app/data'])
        expect(await isAllowed({ path }, rooted), path).to.equal(true)
      for (const path of ['x', '../data/x', 'data/../../../etc', '/data/x'])
        expect(await isAllowed({ path }, rooted), path).to.equal(false)
    })

    it('is one absolute path', () => {
      for (const fs_root of ['srv', '~/x', '/srv/*', '', 'C:x'])
        expect(securityPlugin.schema.safeParse({ fs_root }).success, fs_root).to.equal(false)
      expect(securityPlugin.schema.safeParse({ fs_root: 'D:\\app' }).success).to.equal(true)
    })

    it('warns where no path is judged', () => {
      const context = makeContext()
      createStage(securityPlugin, { fs_root: '/srv' }, context)
      expect(context.warnings).to.deep.equal(['security.fs_root: without fs_allowlist no path is judged'])
    })
  })

  it('judges the names of members that begin like a path', async () => {
    expect(await isAllowed({ write: { '/etc/passwd': 'x' } })).to.equal(false)
    expect(await isAllowed({ path: { secrets: 1 } })).to.equal(true)
  })

  it('and the egress rule share file: URLs: those without a host are for fs_allowlist', async () => {
    const both = { ...security, egress_allowlist: ['good.com'] }
    for (const text of ['file:///srv/a', 'file:/srv/a', 'file://localhost/srv/a'])
      expect(await detailsOf(both, { q: text }), text).to.deep.equal([])
    expect(await detailsOf(both, { q: 'file://share/pub/a' })).to.deep.equal([
      '$.q has the scheme file:, which egress_allowlist does not allow',
    ])
    expect(await detailsOf(both, { url: 'file:///srv/a' })).to.deep.equal([])
  })

  it('explains its list and what it finds', async () => {
    const lines: string[] = []
    const call = makeCall({ args: { path: '/etc' } })
    await securityStage({ fs_allowlist: ['/srv/**'] }).explain?.(
      call,
      async () => served(),
      (line) => lines.push(line),
    )
    expect(lines).to.include('fs_violation: $.path would open /etc; fs_allowlist does not allow it')
    expect(lines).to.include('fs_allowlist: /srv/**')
  })
})
