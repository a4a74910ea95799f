// `npm start`: the billing service, the gateway in front of it, and commands to paste into another terminal.
import { messageOf } from 'svc-sdk/core/json'
import { sendExampleCalls } from './example-calls.js'
import {
  type ExampleGateway,
  examplePolicy,
  here,
  policyFor,
  startExampleGateway,
  usualAdminPort,
  usualToolPort,
} from './gateway.js'
import { isPortTaken } from './listen.js'
import { startToolServer, VERSION } from './tool-server.js'

const usualPort = 8787

try {
  await start()
} catch (error) {
  console.error(messageOf(error))
  process.exitCode = 1
}

async function start(): Promise<void> {
  const port = await portToUse()
  const tools = await startToolServer(usualToolPort)
  try {
    const adminPort = (await isPortTaken(usualAdminPort)) ? 0 : usualAdminPort
    const gateway = await startExampleGateway(policyFor(tools.url, adminPort), examplePolicy, port)
    if (gateway.newKey !== undefined)
      console.log(`First run: a signing key was created.\n${gateway.newKey}\n`)
    const calls = await sendExampleCalls(gateway.url)
    stopOnSignal(async () => {
      calls.stop()
      await gateway.handle.close()
      await tools.close()
    })
    console.log(instructions(gateway, tools.url))
    const refund = calls.refund.then((result) => {
      if (result !== undefined) console.log(`\n${result}`)
    })
    await Promise.all([refund, calls.others])
  } catch (error) {
    await tools.close()
    throw error
  }
}

async function portToUse(): Promise<number> {
  const { PORT } = process.env
  const port = Number(PORT ?? usualPort)
  if (!Number.isInteger(port) || port < 0 || port > 65_535) {
    throw new Error(`PORT is ${JSON.stringify(PORT)}; expected 0 to 65535`)
  }
  if (port === 0 || !(await isPortTaken(port))) return port
  console.log(`Port ${port} is in use, so the gateway listens on a free one. Set PORT to choose another.\n`)
  return 0
}

function instructions(gateway: ExampleGateway, tools: string): string {
  const { url, adminUrl, tokenFile, auditDir, keyFile } = gateway
  const log = here(auditDir)
  const admin = `--admin ${adminUrl} --token-ref file://${here(tokenFile)}`
  const call = (tool: string, args: object): string =>
    [
      `  curl -s ${url}/mcp/billing/${tool}@${VERSION} \\`,
      `    -H 'content-type: application/json' -d '${JSON.stringify(args)}'`,
    ].join('\n')
  return [
    `The gateway listens on ${url}`,
    `  in front of  ${tools}, the example's tool server`,
    `  with the policy  ${here(examplePolicy)}`,
    '',
    'The console shows the calls of an example agent. Its refund of 86 EUR waits there for you:',
    `  ${consoleOf(adminUrl)}`,
    `  the token to sign in with is in  ${here(tokenFile)}`,
    '',
    'In another terminal, in this directory:',
    '',
    '  # a call that the policy allows',
    call('get_invoice', { invoice: 'INV-1001' }),
    '',
    '  # one that it denies: nothing is sent to the tool server',
    call('delete_customer', { customer: 'Harbour Bakery' }),
    '',
    '  # one that a reviewer has to approve; then send it again with -H "x-escalation-id: ID"',
    call('refund_payment', { invoice: 'INV-1001', amount: 420, reason: 'charged twice' }),
    `  npx svc-sdk escalations list ${admin}`,
    `  npx svc-sdk escalations approve ID ${admin}`,
    '',
    '  # the records of these calls, and the proof that the log is intact',
    `  npx svc-sdk audit show ${log} --format table`,
    `  npx svc-sdk audit verify ${log} --keys ${here(keyFile)}`,
    '',
    `An MCP client connects to ${url}/mcp/billing`,
    'Ctrl-C stops the gateway and the tool server.',
  ].join('\n')
}

/** Browsers keep the cookie of this name, and not that of an address. */
function consoleOf(adminUrl: string): string {
  return `http://localhost:${new URL(adminUrl).port}/console`
}

/** Once: under npm, one Ctrl-C arrives twice, from the terminal and from npm. */
function stopOnSignal(close: () => Promise<void>): void {
  let stopping = false
  const stop = (): void => {
    if (stopping) return
    stopping = true
    console.log('\nStopping: calls in flight end and are recorded first.')
    close().then(
      () => console.log('Stopped.'),
      (error: unknown) => {
        console.error(messageOf(error))
        process.exitCode = 1
      },
    )
  }
  process.on('SIGINT', stop)
  process.on('SIGTERM', stop)
}
