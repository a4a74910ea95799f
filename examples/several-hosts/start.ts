// `npm start`: all programs of the example, and commands that break them. A gateway that ends is started again, as by systemd.
import { Fleet, type Host } from './fleet.js'

const restartAfterMs = 1000

const fleet = await Fleet.start({ port: Number(process.env['PORT'] ?? 8787) }).catch((error: Error) => {
  console.error(error.message)
  process.exit(1)
})
let stopping = false
for (const host of fleet.hosts) restart(host)

const [first, second, third] = fleet.hosts
const call = (tool: string) =>
  `  curl -s ${fleet.url}/mcp/shop/${tool}@1.0.0 -H 'content-type: application/json' -H "idempotency-key: $(openssl rand -hex 16)" -d '{}'`
console.log(`HAProxy listens on ${fleet.url}, before three gateways:
${fleet.hosts.map(({ name, url, gateway, dir }) => `  ${name}  ${url}  process ${gateway.pid}  ${dir}`).join('\n')}

In another terminal:

  # a call, and one that may be made 75 times a day, by all gateways together
${call('pay')}
${call('send_voucher')}

  # kill a host, drain one: each comes back a second later
  kill -KILL ${first?.gateway.pid}
  kill -TERM ${second?.gateway.pid}

  # change the policy of one host and put it in force
  $EDITOR ${third?.dir}/policy.yaml && kill -HUP ${third?.gateway.pid}

  # end a primary of Redis: its replica takes over
  redis-cli -p ${fleet.redis[0]?.port} shutdown nosave

  # the log of a host
  npx svc-sdk audit verify ${first === undefined ? '' : fleet.logOf(first)} --keys ${first?.dir}/audit.key

The programs' output is in ${fleet.dir}/output. Ctrl-C ends all of them.`)

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    // Under npm, one Ctrl-C arrives twice.
    if (stopping) return
    stopping = true
    fleet.end().then(() => console.log(`Ended. Logs and keys stay in ${fleet.dir}.`))
  })
}

function restart(host: Host): void {
  host.gateway.onEnd(() => {
    if (stopping) return
    console.log(`${host.name} has ended.`)
    startAgain(host)
  })
}

function startAgain(host: Host): void {
  setTimeout(async () => {
    if (stopping) return
    try {
      await host.gateway.start()
    } catch (error) {
      console.log(error instanceof Error ? error.message : error)
      return startAgain(host)
    }
    console.log(`${host.name} runs again, process ${host.gateway.pid}.`)
    restart(host)
  }, restartAfterMs)
}
