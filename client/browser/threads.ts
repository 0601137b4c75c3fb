/** A page mines on the caller's thread, with turns for other events in between. */
export const runThread = undefined
export const createProgramRunner = (): undefined => undefined
export const prepareNativeSearch = async () => ({ missing: 'a page runs no programs' })

/** Resolves in a later turn of the event loop, so that other events are handled before. */
export function yieldToEvents(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel() // a time-out would wait 4 ms each time
    Object.assign(port1, {
      onmessage: () => {
        port1.close()
        resolve()
      },
    })
    port2.postMessage(undefined)
  })
}
