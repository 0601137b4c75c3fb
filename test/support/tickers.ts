/** What the exchanges' public tickers answer, as their documentation and their clients show it. */
export const KRAKEN_XMR =
  '{"error":[],"result":{"XXMRZUSD":{"a":["163.29000000","5","5.000"],"b":["163.24000000","1","1.000"],"c":["163.27000000","0.52341"],"v":["1023.1","2044.9"],"p":["162.1","161.9"],"t":[1210,2554],"l":["159.01","158.4"],"h":["164.9","165.2"],"o":"160.77000000"}}}'
export const KRAKEN_XNO =
  '{"error":[],"result":{"NANOUSD":{"a":["0.95300","100","100.0"],"b":["0.95000","20","20.0"],"c":["0.95100","12.5"],"o":"0.94"}}}'
export const KRAKEN_ERROR = '{"error":["EQuery:Unknown asset pair"]}'
export const KUCOIN =
  '{"code":"200000","data":{"time":1700000000000,"sequence":"1","price":"163.3","size":"0.1","bestBid":"163.2","bestAsk":"163.31"}}'
export const KUCOIN_NONE = '{"code":"200000","data":null}'
export const COINGECKO = '{"nano":{"usd":0.952}}'
export const BITFINEX = '[163.2,51.3,163.28,44.1,-1.02,-0.0062,163.25,1523.9,166.01,158.9]'
