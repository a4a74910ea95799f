// A vote that a real browser signs, with Chromium's virtual authenticator.
import { createHash, generateKeyPairSync } from 'node:crypto'
import { assertionError, challengeOf } from '@svc/core/passkey'
import { expect } from 'chai'
import type { Page } from 'playwright-core'
import { adminToken, ask } from '../app/admin/rig.js'
import { signedVote as vote } from '../support/authenticator.js'
import { accessibilityViolations, chromiumOfSuite } from '../support/chromium.js'
import { hiddenControls, hostileName } from './hostile.js'
import { startPayments } from './payments.js'
import { ready, screenshot, startConsole } from './rig.js'

interface Credential {
  readonly id: string
  readonly response: {
    readonly authenticatorData: ArrayBuffer
    readonly clientDataJSON: ArrayBuffer
    readonly signature: ArrayBuffer
    getPublicKey(): ArrayBuffer
  }
}

/** What these tests use of a page. */
interface PageWindow {
  readonly navigator: {
    readonly credentials: {
      get(options: object): Promise<Credential>
      create(options: object): Promise<Credential>
    }
  }
}

/** A page of the console whose authenticator has this credential. */
async function withPasskey(page: Page, credentialId: string, privateKey?: string): Promise<void> {
  const session = await page.context().newCDPSession(page)
  await session.send('WebAuthn.enable')
  const { authenticatorId } = await session.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2',
      transport: 'internal',
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  })
  if (privateKey === undefined) return
  const credential = {
    credentialId,
    isResidentCredential: false,
    rpId: 'localhost',
    privateKey,
    signCount: 0,
  }
  await session.send('WebAuthn.addCredential', { authenticatorId, credential })
}

/** A credential by a name; its members are base64. */
function passkeyOf(name: string) {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
  return {
    credentialId: createHash('sha256').update(name).digest('base64'),
    publicKey: publicKey.export({ format: 'der', type: 'spki' }).toString('base64'),
    privateKey: privateKey.export({ format: 'der', type: 'pkcs8' }).toString('base64'),
  }
}

/** A gateway whose votes need this passkey. */
function guarded({ credentialId, publicKey: public_key }: ReturnType<typeof passkeyOf>) {
  const id = Buffer.from(credentialId, 'base64').toString('base64url')
  return {
    admin: { port: 0, tokenRef: 'env:SVC_ADMIN', passkeys: [{ id, public_key }] },
    security: {
      egress_allowlist: [],
      side_effects: { approve_high_risk: true, human_escalation: { require: 'passkey' as const } },
    },
    enforcement: { escalate_on: ['egress_violation'], escalations: { adapter: 'memory' as const } },
  }
}

/** Refunds above 100, whose votes need a passkey; the policy lists that of ann. */
function guardedPayments({ credentialId, publicKey }: ReturnType<typeof passkeyOf>): string {
  const id = Buffer.from(credentialId, 'base64').toString('base64url')
  return `admin:
  port: 0
  tokenRef: env:SVC_ADMIN
  roles: { reviewer: [approver] }
  passkeys: [{ user: ann@example.com, id: ${id}, public_key: ${publicKey} }]
`
}

/** Sends an approval by the keys of the view. */
async function approveBy(page: Page): Promise<void> {
  await page
    .getByRole('button', { name: /Approve/ })
    .and(page.locator(':enabled'))
    .waitFor()
  await page.keyboard.press('a')
  await page.getByLabel(/Approve with a comment/).press('Control+Enter')
}

/** What the browser signs, as the API takes it. */
function sign(page: Page, given: { challenge: string; rp_id: string; credentials: readonly string[] }) {
  return page.evaluate(async ({ challenge, rp_id: rpId, credentials }) => {
    const bytes = (text: string) =>
      Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (one) => one.charCodeAt(0))
    const text = (buffer: ArrayBuffer) =>
      btoa(String.fromCharCode(...new Uint8Array(buffer)))
        .replaceAll('+', '-')
        .replaceAll('/', '_')
        .replaceAll('=', '')
    const { navigator } = globalThis as unknown as PageWindow
    const credential = await navigator.credentials.get({
      publicKey: {
        challenge: bytes(challenge),
        rpId,
        userVerification: 'required',
        allowCredentials: credentials.map((id) => ({ type: 'public-key', id: bytes(id) })),
      },
    })
    const { response } = credential
    return {
      credential_id: credential.id,
      authenticator_data: text(response.authenticatorData),
      client_data_json: text(response.clientDataJSON),
      signature: text(response.signature),
    }
  }, given)
}

describe('a passkey in a browser', () => {
  const browser = chromiumOfSuite()

  it('signs a vote on the page of the console, and no other browser does', async () => {
    const own = passkeyOf('a passkey')
    await using rig = await startConsole(browser, guarded(own))
    const held = await rig.gateway.invoke('/mcp/billing/pay@1', { url: 'https://elsewhere.example/' })
    const { escalation_id: escalation } = (await held.json()) as { escalation_id: string }
    const post = async (path: string, body: object) =>
      ask(rig.origin, `/api/escalations/${escalation}/${path}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      })
    const given = { vote: 'approve', comment: 'seen' }
    const challenge = (await post('challenge', given)).json as unknown as Parameters<typeof sign>[1] & {
      nonce: string
    }
    const agents = await rig.page()
    await withPasskey(agents, '')
    const denied = await sign(agents, challenge).catch((error: unknown) => String(error))
    expect(denied).to.match(/NotAllowedError/)
    const page = await rig.page()
    await withPasskey(page, own.credentialId, own.privateKey)
    const passkey = { nonce: challenge.nonce, ...(await sign(page, challenge)) }
    const elsewhere = await post('votes', { ...given, comment: 'not seen', passkey })
    expect(elsewhere.json).to.include({ denial_reason: 'passkey_required' })
    const { status, json } = await post('votes', { ...given, passkey })
    expect([status, json['status']]).to.deep.equal([200, 'approved'])
  })

  it('is asked for by the view of approvals, which says what an approval does not prove', async () => {
    const own = passkeyOf('a reviewer')
    await using rig = await startConsole(browser, guarded(own))
    await rig.gateway.invoke('/mcp/billing/pay@1', { url: 'https://elsewhere.example/' })
    const page = await rig.page()
    await withPasskey(page, own.credentialId, own.privateKey)
    await page.getByText(/proves possession of the admin token/).waitFor()
    await page.getByText('Needs your passkey.').waitFor()
    await page.keyboard.press('a')
    await page.getByLabel(/Approve with a comment/).fill('seen')
    await page.keyboard.press('Control+Enter')
    await page.getByText('approved', { exact: true }).first().waitFor()
    const { event } = rig.gateway.records().find(({ tool }) => tool === 'escalations/vote@1') ?? {}
    expect(event).to.include({ proof: 'passkey', comment: 'seen' })
  })

  it('signs one vote on several calls once, without those on which its owner has no vote', async () => {
    const ann = passkeyOf('of ann')
    await using rig = await startPayments(browser, guardedPayments(ann), ', require: passkey')
    for (const user of ['bob@example.com', 'ann@example.com', 'dana@example.com'])
      await rig.waits('billing/refund_payment', { amount: 240 }, { user })
    const page = await rig.pageOf('ann@example.com', '/console')
    await withPasskey(page, ann.credentialId, ann.privateKey)
    await page.locator('.waiting .row[aria-current]').waitFor()
    for (const key of ['x', 'j', 'j', 'X', 'v']) await page.keyboard.press(key)
    const approve = async (several: string) => {
      await page
        .getByRole('button', { name: `Approve ${several}` })
        .and(page.locator(':enabled'))
        .waitFor()
      await page.keyboard.press('a')
      await page.getByLabel(`Approve ${several} with a comment`).press('Control+Enter')
    }
    await page.locator('.together-calls .input').nth(2).waitFor()
    await page.keyboard.press('End')
    await page.getByText('One signature of your passkey.').waitFor()
    await approve('3 calls')
    await page
      .locator('.together-calls li')
      .nth(1)
      .getByText('Not in the vote: Nobody votes on a call of their own.')
      .waitFor()
    await page.locator('#together-title').focus()
    await approve('2 calls')
    await page.getByText('2 of 2 votes cast').waitFor()
    const votes = rig.gateway.records().filter(({ tool }) => tool === 'escalations/vote@1')
    expect(votes.map(({ event }) => event?.['proof'])).to.deep.equal(['passkey', 'passkey'])
  })

  it('is registered by one reviewer and confirmed by another, and signs votes until it is revoked', async () => {
    const ann = passkeyOf('of ann')
    await using rig = await startPayments(browser, guardedPayments(ann), ', require: passkey')
    const id = await rig.waits('billing/refund_payment', { invoice: 'INV-1', amount: 240 })
    const bos = await rig.pageOf('bo@example.com', `/console/approvals/${id}`)
    await withPasskey(bos, '')
    await bos.getByRole('button', { name: 'Register a passkey' }).click()
    const code = await bos
      .getByText(/to whom you read its code/)
      .locator('code')
      .textContent()
    const enrolled = (await bos.getByRole('link', { name: 'waits', exact: true }).getAttribute('href')) ?? ''
    await approveBy(bos)
    await bos
      .getByRole('alert')
      .getByText(/register one, which another reviewer confirms/)
      .waitFor()
    const anns = await rig.pageOf('ann@example.com', enrolled)
    await withPasskey(anns, ann.credentialId, ann.privateKey)
    await anns.getByText('waits for another reviewer').waitFor()
    expect(await anns.locator('.approval section code').first().textContent()).to.equal(code)
    await anns.getByRole('heading', { name: 'bo@example.com of acme wants to register a passkey' }).waitFor()
    expect(await accessibilityViolations(anns)).to.deep.equal([])
    await anns.locator('.ballot .approve:enabled').waitFor()
    await screenshot(anns, 'passkey')
    await anns.keyboard.press('Escape')
    await approveBy(anns)
    await anns.locator('.badge', { hasText: 'counts' }).waitFor()
    await bos.reload()
    await ready(bos)
    await approveBy(bos)
    await bos.getByText('approved', { exact: true }).first().waitFor()
    await bos.goto(enrolled)
    await ready(bos)
    await bos.getByRole('button', { name: 'Revoke the passkey' }).click()
    await bos.locator('.badge', { hasText: 'revoked' }).waitFor()
    const other = await rig.waits('billing/refund_payment', { invoice: 'INV-2', amount: 241 })
    await bos.goto(`/console/approvals/${other}`)
    await ready(bos)
    await approveBy(bos)
    await bos
      .getByRole('alert')
      .getByText(/register one, which another reviewer confirms/)
      .waitFor()
  })

  it('is shown with the name of its owner as text', async () => {
    const ann = passkeyOf('of ann')
    await using rig = await startPayments(browser, guardedPayments(ann), ', require: passkey')
    const id = await rig.waits('billing/refund_payment', { amount: 240 })
    const page = await rig.pageOf(hostileName.replaceAll(/\p{Cc}/gu, ''), `/console/approvals/${id}`)
    await withPasskey(page, '')
    await page.getByRole('button', { name: 'Register a passkey' }).click()
    await page.getByRole('link', { name: 'waits', exact: true }).click()
    await page.getByRole('heading', { name: /^A passkey of javascript:/ }).waitFor()
    // biome-ignore lint/performance/useDomNodeTextContent: what is on the screen, without the state of the page
    expect(await page.locator('body').innerText()).to.not.match(hiddenControls)
    expect(await page.evaluate(() => 'wasRun' in globalThis)).to.equal(false)
    expect(await accessibilityViolations(page)).to.deep.equal([])
  })

  it('is enrolled with the public key that browsers return', async () => {
    await using rig = await startConsole(browser)
    const page = await rig.page()
    await withPasskey(page, '')
    const { id, public_key } = await page.evaluate(async () => {
      const { navigator } = globalThis as unknown as PageWindow
      const credential = await navigator.credentials.create({
        publicKey: {
          challenge: new Uint8Array(32),
          rp: { id: 'localhost', name: 'svc' },
          user: { id: new Uint8Array(16), name: 'ann', displayName: 'ann' },
          pubKeyCredParams: [{ type: 'public-key', alg: -7 }],
          authenticatorSelection: { userVerification: 'required' },
        },
      })
      const key = credential.response.getPublicKey()
      return {
        id: credential.id,
        public_key: btoa(String.fromCharCode(...new Uint8Array(key))),
      }
    })
    const signed = await sign(page, { challenge: challengeOf(vote), rp_id: 'localhost', credentials: [id] })
    const assertion = { public_key, origin: rig.origin, ...signed }
    expect(await assertionError(vote, assertion)).to.equal(undefined)
    expect(await assertionError({ ...vote, reviewer: 'eve of acme' }, assertion)).to.contain('challenge')
  })
})
